"""Data sets, measures, significance, reports and the command line."""
