"""What reproduces the paper: the systems it compares, its tables and its theory."""
