"""Faults on purpose: kills, damage, full disks, rivals; `make faults` counts what survives."""
