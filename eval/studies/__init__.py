"""Benchmarks of models of words and sentences, classification, clustering and off-topic questions."""
