"""Fault injection: kills, damaged files, full disks, concurrent processes; `make faults` counts survivors."""
