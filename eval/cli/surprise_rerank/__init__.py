"""The command `surprise-rerank`: fill an index, search it, explain, and tell its state."""
