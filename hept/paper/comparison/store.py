"""Results on disk: each measurement is a small file, so that a stopped comparison can continue."""

from __future__ import annotations

import json
from pathlib import Path

from hepdata.storage.atomic import disk_errors, write_atomically

Result = dict[str, float]


class ResultStore:
    """The folder `results` of a comparison.

    Args:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, kind: str, key: str, fingerprint: str) -> Result | None:
        """The stored result of a measurement with these settings; None if missing or unreadable."""
        try:
            content = json.loads(self._file(kind, key, fingerprint).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return dict(content)

    def put(self, kind: str, key: str, fingerprint: str, result: Result) -> None:
        """Store a result atomically.

        Raises:
            JobError: No space, or no permission.
        """
        with disk_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        with write_atomically(self._file(kind, key, fingerprint)) as file:
            file.write((json.dumps(result, indent=2) + "\n").encode())

    def _file(self, kind: str, key: str, fingerprint: str) -> Path:
        return self.path / f"{kind}-{key}-{fingerprint}.json"
