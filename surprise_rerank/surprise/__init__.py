"""The surprise score, and the ensembles that it is measured against."""
