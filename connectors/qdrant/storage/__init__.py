"""Where an index is, folder or server: its points, its versions and the files beside them."""
