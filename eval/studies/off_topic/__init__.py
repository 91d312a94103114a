"""Off-topic questions: which statistic finds them, and whether thresholds let through what they should."""
