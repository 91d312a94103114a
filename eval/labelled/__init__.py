"""Labelled texts and their vectors: what classification and clustering are measured on."""
