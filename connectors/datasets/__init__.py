"""Retrieval data sets: BEIR folders, ir_datasets and the built-in demo."""
