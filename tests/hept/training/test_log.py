import struct
import subprocess
import sys

import pytest
from tensorboardX.proto.event_pb2 import Event

from hepdata.progress import Silent
from hept.runs.folder import RunFolder
from hept.training.expected_time import RunLength
from hept.training.log import TrainingLog


def read_scalars(folder):
    """The scalars of an event file: records of length, checksum, event, checksum."""
    (path,) = (folder / "tensorboard").iterdir()
    content, scalars = path.read_bytes(), {}
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        event = Event.FromString(content[12 : 12 + length])
        content = content[16 + length :]
        for value in event.summary.value:
            scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    return scalars


def test_rows_and_tensorboard_say_the_same(tmp_path):
    log = TrainingLog(RunFolder(tmp_path), Silent(), is_quiet=False)
    log.start(RunLength(2), done=0)
    assert list(log.time_waiting([1, 2])) == [1, 2]
    log.step(1, 1, 0.5, 1e-3, 2.0, 100)
    log.step(2, 1, 0.25, 1e-3, 1.0, 100)
    log.epoch(2, 1, 0.375, {"loss": 0.3, "auc": 0.9})
    log.finish()
    scalars = read_scalars(tmp_path)
    assert scalars["train/loss"] == [(1, 0.5), (2, 0.25)]
    assert scalars["epoch/valid_auc"][0] == (2, pytest.approx(0.9))
    assert [row["loss"] for row in RunFolder(tmp_path).read_rows("steps")] == ["0.5", "0.25"]
    (row,) = RunFolder(tmp_path).read_rows("metrics")
    assert (row["train_loss"], row["valid_auc"]) == ("0.375", "0.9")
    assert 0 <= float(row["wait_for_data"]) <= 1
    assert float(row["points_per_s"]) > 0


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from hepdata.errors import JobError
from hepdata.progress import Silent
from hept.runs.folder import RunFolder
from hept.training.expected_time import RunLength
from hept.training.log import TrainingLog

log = TrainingLog(RunFolder(Path(sys.argv[1])), Silent(), is_quiet=False)
log.start(RunLength(100), done=0)
resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))
for act in (lambda: [log.step(step, 1, 0.5, 1e-3, 2.0, 100) for step in range(1, 100)], log.finish):
    try:
        act()
    except JobError as error:
        print(error)
"""


def test_a_disk_that_is_full_for_tensorboard_is_one_line(tmp_path):
    command = [sys.executable, "-c", FULL_DISK, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(
        line.startswith(f"{tmp_path / 'tensorboard'}: found the error File too large") for line in lines
    )


def test_rows_after_the_saved_step_are_forgotten(tmp_path):
    folder = RunFolder(tmp_path)
    for step in range(1, 6):
        folder.append("steps", {"step": step, "loss": 1 / step})
    with (tmp_path / "steps.csv").open("a") as file:
        file.write("6,0.1")  # killed in the middle of a line
    folder.forget_after(step=3, epoch=1)
    assert [row["step"] for row in folder.read_rows("steps")] == ["1", "2", "3"]
    assert folder.read_rows("steps")[2]["loss"] == repr(1 / 3)
