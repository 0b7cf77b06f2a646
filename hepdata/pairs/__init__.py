"""Contrastive pair lists of tracking clouds."""
