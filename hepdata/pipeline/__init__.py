"""Whole builds: raw events in, a dataset folder out, resumable and independent of the number of workers."""
