"""The systems that an index can be searched with, and what is stored for them."""
