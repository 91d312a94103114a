"""Off-topic questions: which statistic finds them, and whether thresholds hold what they promise."""
