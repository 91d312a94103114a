"""Similarities of two texts: DynaMax, fuzzy bags of words, averages and others, by name."""
