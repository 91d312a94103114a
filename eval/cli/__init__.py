"""The commands `rerank-eval` and `surprise-rerank`."""
