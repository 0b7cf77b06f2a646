"""Objectives: the loss of a task, its figures of merit, and the metric that chooses the best epoch."""
