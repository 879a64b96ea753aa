"""Records as tables: what rows and columns they become, and the libraries that hold them."""
