"""Data sets, measures, reports and the command line; private but for the commands (docs/api.md)."""
