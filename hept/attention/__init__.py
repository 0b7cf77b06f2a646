"""HEPT attention: hidden features and coordinates enter, hash tables and blocks sort them, new ones leave."""
