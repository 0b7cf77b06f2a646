"""A writer of trees that name classes, as ROOT writes them and uproot cannot."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from struct import pack

import pytest
import uproot

_NULL = bytes(4)


def _versioned(version: int, *parts: bytes) -> bytes:
    """An object's members behind their number of bytes and the version of its class."""
    body = b"".join(parts)
    return pack(">IH", (len(body) + 2) | 0x40000000, version) + body


def _pointer(class_name: str, content: bytes) -> bytes:
    """An object behind a pointer, with its class in words."""
    body = b"\xff\xff\xff\xff" + class_name.encode() + b"\0" + content
    return pack(">I", len(body) | 0x40000000) + body


def _string(text: str) -> bytes:
    return pack(">B", len(text)) + text.encode()


_OBJECT = pack(">HII", 1, 0, 0x03000000)


def _named(name: str) -> bytes:
    return _versioned(1, _OBJECT, _string(name), _string(""))


def _array(*pointers: bytes) -> bytes:
    return _versioned(3, _OBJECT, _string(""), pack(">ii", len(pointers), 0), *pointers)


def _branch(name: str, clones: str, *branches: bytes) -> bytes:
    """A TBranchElement without entries."""
    fill = _versioned(2, pack(">hh", 0, 1001))
    numbers = pack(">iiiiqiIiqqqq", 0, 16000, 0, 0, 0, 0, 1, 99, 0, 0, 0, 0)
    baskets = b"\1" + pack(">i", 0) + b"\1" + pack(">q", 0) + b"\1" + pack(">q", 0)
    plain = _versioned(
        12, _named(name), fill, numbers, _array(*branches), _array(), _array(), baskets, _string("")
    )
    classes = _string("TClonesArray") + _string("") + _string(clones)
    element = _versioned(10, plain, classes, pack(">Ihiiii", 0, 1, -1, 3, -1, 0), _NULL, _NULL)
    return _pointer("TBranchElement", element)


class _Tree(uproot.model.Model):
    """A TTree of some branches, which uproot stores as any object."""

    classname = "TTree"
    class_rawstreamers = ()
    fTitle = ""

    def __init__(self, branches: Sequence[bytes]) -> None:
        self._branches = branches

    def to_writable(self) -> "_Tree":
        return self

    def serialize(self, name: str | None = None) -> bytes:
        attributes = (
            _versioned(2, pack(">hhh", 602, 1, 1)),
            _versioned(2, pack(">hh", 0, 1001)),
            _versioned(2, pack(">hhf", 1, 1, 1.0)),
        )
        numbers = pack(
            ">qqqqqdiiiiIqqqqqq", 0, 0, 0, 0, 0, 1.0, 0, 25, 0, 1000, 0, 10**12, 10**12, 0, 0, 0, 10**6
        )
        features = _versioned(0, pack(">I", 0x1AA12F10), b"\0")  # a class without versions has a checksum
        return _versioned(
            20,
            *(_named(name or ""), *attributes, numbers, b"\1\1", features),
            *(_array(*self._branches), _array(), _NULL, bytes(8), *[_NULL] * 4),
        )


@pytest.fixture
def write_classes(tmp_path: Path) -> Callable[[Mapping[str, tuple[str, Sequence[str]]]], str]:
    """Write a Delphes tree without events whose branches name their class: `{branch: (class, leaves)}`."""

    def write(branches: Mapping[str, tuple[str, Sequence[str]]]) -> str:
        path = tmp_path / "classes.root"
        written = [
            _branch(name, kind, *(_branch(f"{name}.{leaf}", kind) for leaf in leaves))
            for name, (kind, leaves) in branches.items()
        ]
        with uproot.recreate(path) as file:
            file["Delphes"] = _Tree(written)
        return str(path)

    return write
