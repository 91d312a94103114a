"""Classification of texts by the names of their labels, with few examples and without any."""
