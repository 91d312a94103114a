"""Reports: tables and pictures as data, and how a terminal, a page and files show them."""
