"""EvalRank: does an embedding rank the similar before the unrelated? (Wang, Kuo and Li, ACL 2022.)"""
