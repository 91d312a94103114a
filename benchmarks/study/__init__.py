"""Where the defaults come from: variants over 19 collections, and each kind of them left out once.

`python -m benchmarks.study left-out --data DATA` gives the tables of docs/results.md. `DATA` holds `beir/`
with the collections that `__main__` names; scifact and nfcorpus come from ir_datasets.
"""
