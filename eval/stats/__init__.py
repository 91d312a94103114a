"""Paired tests, intervals and correlations."""
