"""Documents to points, statistics and upkeep."""
