"""What helps a ranking: every choice behind `auto` beside what was tried instead, a table for each subject.

What all variants share (pools, scores, token maxima) is computed once and kept in the cache folder; a variant
is then some arithmetic over it, by the package's own functions wherever it has them.

    python -m benchmarks.study parts fusion --dataset beir/nfcorpus --split dev

docs/defaults.md has the tables, and names the questions that they may be chosen on.
"""
