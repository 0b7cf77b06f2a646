"""HEPT attention: features and coordinates enter, hash tables sort the points into blocks, features leave."""
