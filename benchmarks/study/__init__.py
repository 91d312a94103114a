"""Where the defaults come from: variants over eight collections, and each collection left out once.

`python -m benchmarks.study left-out --data DATA` gives the tables of docs/results.md. `DATA` holds `beir/`
with cranfield, cacm, cisi, lisa and npl; scifact and nfcorpus come from ir_datasets. `verdicts` and
`heavy-tails` give those of docs/thresholds.md.
"""
