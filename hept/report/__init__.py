"""The run folder's `report.html`."""
