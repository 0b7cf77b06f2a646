"""The run folder's `report.html`."""

from hept.report.write import write_report

__all__ = ["write_report"]
