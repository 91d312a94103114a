"""Why a ranking came about, and what to expect of a model on a corpus."""
