"""The command `rerank-eval` and its sub-commands."""
