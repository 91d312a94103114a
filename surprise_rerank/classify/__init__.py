"""Classification and clustering by surprise."""
