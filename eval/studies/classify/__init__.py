"""Classification by the names of labels, and by a few examples."""
