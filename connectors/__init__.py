"""Everything that talks to somebody else's system: Qdrant, document sources, Pyserini."""
