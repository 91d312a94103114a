"""BM25 by Lucene, through Pyserini and the Java that a package brings."""
