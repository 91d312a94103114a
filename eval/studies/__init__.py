"""Benchmarks of models of words and sentences, of classification and of clustering."""
