"""Clusters of texts by cosine and by surprise, compared with labels."""
