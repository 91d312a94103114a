"""Data sets, measures, significance, reports and the command line.

All of it is private but the commands (docs/api.md).
"""
