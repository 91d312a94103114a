"""Arrays, moments, tokens and files: what all other rooms are made of."""
