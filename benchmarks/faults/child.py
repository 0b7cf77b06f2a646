"""Work in a forked process: it may be killed, may crash or hang, and the counting goes on.

The parent only imports; every job runs in a child, so that no thread of a library is ever forked. A child
leads a process group of its own, to which the processes that it starts belong.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hepdata.errors import HeptError

Ending = Literal["done", "refused", "killed", "traceback", "crashed", "hung"]
Work = Callable[[], object]

_CODES: dict[int, Ending] = {0: "done", 3: "refused", 4: "traceback"}
_STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}
# Imported once, here: a child then begins with its work.
_MODULES = (
    "distributed", "h5py", "hepdata.building", "hepdata.commands", "hept.commands",
    "hept.model.weights", "hept.training.trainer", "pyarrow.parquet", "uproot",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """How a child ended, and what it said."""

    ending: Ending
    text: str

    @property
    def is_orderly(self) -> bool:
        """Whether it ended well, or in one line."""
        return self.ending == "done" or (self.ending == "refused" and len(self.text.splitlines()) == 1)


@dataclass(frozen=True)
class Child:
    """A process at work, and the file that it writes its answer to."""

    process: int
    answer: Path


def preload() -> None:
    """Import what children need. Processes that a library spawns import this package, and not these."""
    for name in _MODULES:
        importlib.import_module(name)


def start(work: Work) -> Child:
    """Fork a child that does the work."""
    handle, name = tempfile.mkstemp(prefix="answer-")
    sys.stdout.flush()
    process = os.fork()
    if process:
        os.close(handle)
        return Child(process, Path(name))
    os.setsid()
    # Warnings and logs of libraries go nowhere; what counts is the answer.
    silent = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silent, stream)
    code, text = 4, ""
    try:
        text, code = str(work()), 0
    except HeptError as error:
        text, code = str(error), 3
    except BaseException:
        text = traceback.format_exc()
    with suppress(OSError):
        os.write(handle, text.encode(errors="replace"))
    os._exit(code)


def wait(child: Child, timeout: float = 300.0) -> Outcome:
    """The outcome of a child; one that takes longer than `timeout` seconds is killed."""
    limit = time.monotonic() + timeout
    try:
        while True:
            done, status = os.waitpid(child.process, os.WNOHANG)
            if done:
                break
            if time.monotonic() > limit:
                os.killpg(child.process, signal.SIGKILL)
                os.waitpid(child.process, 0)
                return Outcome("hung", f"more than {timeout:g} s")
            time.sleep(0.002)
        text = child.answer.read_text(errors="replace")
    finally:
        child.answer.unlink()
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Outcome("killed" if number == signal.SIGKILL else "crashed", f"signal {number}")
    return Outcome(_CODES.get(os.WEXITSTATUS(status), "crashed"), text)


def run(work: Work, timeout: float = 300.0) -> Outcome:
    """Do the work in a child and wait for it."""
    return wait(start(work), timeout)


def list_group(leader: int) -> list[int]:
    """Processes of a group that are alive, from /proc; its leader last."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                if int(fields[2]) == leader and fields[0] != "Z":
                    found.append(int(entry.name))
    return sorted(found, key=lambda process: process == leader)


def outlives(leader: int, seconds: float = 30.0) -> bool:
    """Whether processes of a group are still there so long after their leader; they are then killed."""
    limit = time.monotonic() + seconds
    while list_group(leader):
        if time.monotonic() > limit:
            kill_group(leader)
            return True
        time.sleep(0.01)
    return False


def kill_group(leader: int) -> None:
    """Kill all processes of a group that are left."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def count_steps(work: Work, folder: Path, last: int = 0) -> int:
    """Do the work, and kill this process before the `last`-th change that it makes below `folder`."""
    steps = 0

    def hear(name: str, arguments: tuple[object, ...]) -> None:
        nonlocal steps
        is_exchange = name == "ctypes.dlsym" and arguments[1] == "renameat2"
        if is_exchange or (name in _STEPS and str(arguments[0]).startswith(str(folder))):
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    work()
    return steps
