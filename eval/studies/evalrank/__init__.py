"""EvalRank (ACL 2022): does an embedding rank the similar before the unrelated."""
