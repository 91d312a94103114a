"""Everything that talks to somebody else's system: Qdrant, document sources, Pyserini.

docs/api.md lists what of it is public.
"""
