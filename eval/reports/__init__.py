"""Reports: tables and plots, as a terminal, Markdown, LaTeX, JSON or one HTML page shows them."""
