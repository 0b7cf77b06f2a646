"""Work in a forked process: it may be killed, may crash or hang, and the counting goes on.

The parent only imports; every job runs in a child, so that no thread of a library is ever forked.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from hepdata.errors import HeptError

Ending = Literal["done", "refused", "killed", "traceback", "crashed", "hung"]
_CODES: dict[int, Ending] = {0: "done", 3: "refused", 4: "traceback"}
STEPS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate"}


@dataclass(frozen=True)
class Outcome:
    """How a child ended, and what it said."""

    ending: Ending
    text: str


def start(work: Callable[[], object]) -> tuple[int, int]:
    """Fork a child that does the work; its process id, and the pipe that it writes its answer to."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process:
        os.close(writer)
        return process, reader
    os.setsid()
    os.close(reader)
    code, text = 4, ""
    try:
        text, code = str(work()), 0
    except HeptError as error:
        text, code = str(error), 3
    except BaseException:
        text = traceback.format_exc()
    os.write(writer, text.encode(errors="replace")[:60_000])
    os._exit(code)


def wait(process: int, pipe: int, timeout: float = 300.0) -> Outcome:
    """The outcome of a child; one that takes longer than `timeout` seconds is killed."""
    limit = time.monotonic() + timeout
    while True:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            break
        if time.monotonic() > limit:
            os.killpg(process, signal.SIGKILL)
            os.waitpid(process, 0)
            os.close(pipe)
            return Outcome("hung", f"more than {timeout:g} s")
        time.sleep(0.002)
    with os.fdopen(pipe, "rb") as file:
        text = file.read().decode(errors="replace")
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return Outcome("killed" if number == signal.SIGKILL else "crashed", f"signal {number}")
    return Outcome(_CODES.get(os.WEXITSTATUS(status), "crashed"), text)


def run(work: Callable[[], object], timeout: float = 300.0) -> Outcome:
    """Do the work in a child and wait for it."""
    return wait(*start(work), timeout)


def count_steps(work: Callable[[], object], folder: str, last: int = 0) -> int:
    """Do the work, and kill this process before the `last`-th change that it makes below `folder`."""
    steps = 0

    def hear(name: str, arguments: tuple[object, ...]) -> None:
        nonlocal steps
        if name in STEPS and str(arguments[0]).startswith(folder):
            steps += 1
            if steps == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)
    work()
    return steps
