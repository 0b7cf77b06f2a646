"""The error–computation analysis of kernel approximations: its lemmas, and its numerical experiment."""
