"""The approximate index of a similarity job."""
