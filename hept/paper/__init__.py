"""Reproduction of the paper: the systems it compares, its tables and its theory."""
