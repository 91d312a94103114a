"""What stores points and answers requests: Edge, and Qdrant's client."""
