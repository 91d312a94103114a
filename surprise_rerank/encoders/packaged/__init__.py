"""Models that are installed as packages, for machines that reach no model hub."""
