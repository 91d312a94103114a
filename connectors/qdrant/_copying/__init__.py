"""Copies of an index with its vectors, to another place or to a file: nothing is encoded."""
