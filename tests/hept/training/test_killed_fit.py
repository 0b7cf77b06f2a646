"""The same command continues a run that is killed at any of its writes and renames."""

import os
import subprocess
import sys

import pytest

SCRIPT = '''
"""Kill `fit` before the k-th change of its run folder, for every k, then call it again."""
import json, os, signal, shutil, sys
from pathlib import Path

from hept.settings.load import load_config
from hept.runs.folder import RunFolder
from hept.training.trainer import fit

config_file, dataset, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
config = load_config(config_file)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def is_change(event, arguments, out):
    """Whether an audit event is a change below the folder of `out`, where its lock is too."""
    if event == "open":
        path, _, flags = arguments
        is_writing = isinstance(flags, int) and flags & WRITES
    elif event in ("os.rename", "os.remove", "os.mkdir", "os.truncate"):
        path, is_writing = arguments[0], True
    else:
        return False
    return bool(is_writing) and isinstance(path, (str, os.PathLike)) and str(out.parent) in str(path)


def in_child(action):
    """Run `action` in a forked process; returns its exit code, or minus the signal that ended it."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        action()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def fit_and_die(out, kill_at):
    left = [kill_at]

    def count(event, arguments):
        if left[0] > 0 and is_change(event, arguments, out):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    fit(config, dataset, out)


def describe(out):
    run = RunFolder(out)
    chosen = ("train_loss", "valid_loss", "valid_ap@0.9")
    metrics = [[row[name] for name in chosen] for row in run.read_rows("metrics")]
    steps = [[row[name] for name in ("step", "loss")] for row in run.read_rows("steps")]
    files = sorted(path.name for path in out.iterdir() if path.is_file())
    return json.dumps([steps, metrics, files])


def main():
    whole = folder / "whole" / "run"
    assert in_child(lambda: fit(config, dataset, whole)) == 0
    wanted = describe(whole)
    kill_at, bad = 0, []
    while True:
        kill_at += 1
        out = folder / f"kill-{kill_at}" / "run"
        out.parent.mkdir()
        code = in_child(lambda: fit_and_die(out, kill_at))
        if code == 0:
            break
        assert code == -signal.SIGKILL, (kill_at, code)
        again = in_child(lambda: fit(config, dataset, out))
        if again != 0 or describe(out) != wanted:
            bad.append([kill_at, again, describe(out)])
        shutil.rmtree(out.parent)
    print(json.dumps({"killed": kill_at - 1, "bad": bad}))


main()
'''


@pytest.mark.parametrize(
    "change", ["save_every_steps=1", pytest.param("keep_last=1", marks=pytest.mark.slow)]
)
def test_every_kill_leaves_a_folder_that_the_same_call_finishes(make_dataset, small_config, tmp_path, change):
    import json

    dataset = make_dataset(splits={"train": 2, "valid": 1, "test": 1})
    config = small_config("tracking-demo", change, "ema_decay=0.9")
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    (tmp_path / "whole").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "config.yaml", dataset, tmp_path],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["bad"] == []
    assert found["killed"] > 30
