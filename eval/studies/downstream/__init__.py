"""Downstream tasks: what a classifier makes of sentence vectors."""
