"""Ray: the workers of a similarity job, and documents from its data sets into an index."""
