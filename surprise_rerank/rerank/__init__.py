"""Re-rankers: from a candidate pool to a ranking."""
