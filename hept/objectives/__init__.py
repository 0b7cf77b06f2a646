"""What a task asks of the network: its loss, its figures of merit, and when it has learned something."""
