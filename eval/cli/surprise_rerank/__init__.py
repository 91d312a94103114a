"""The command `surprise-rerank`: fill an index, search it, explain results, and show its state."""
