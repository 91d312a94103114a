"""Semantic textual similarity: does a similarity of texts agree with people?"""
