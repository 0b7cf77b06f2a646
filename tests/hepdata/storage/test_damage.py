"""Damage, refusal and interruption: one clear line each, and never half a dataset."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from hepdata.errors import InputError, JobError
from hepdata.loader.dataset import open_dataset
from hepdata.schema import PILEUP
from hepdata.storage.atomic import disk_errors, write_atomically
from hepdata.storage.dataset.convert import convert_dataset
from hepdata.storage.dataset.finish import finish_dataset, fresh_staging
from hepdata.storage.dataset.lock import lock_output
from hepdata.storage.dataset.names import MANIFEST_NAME
from hepdata.storage.parquet.writer import write_shard


def read_everything(folder):
    dataset = open_dataset(folder)
    return [
        (cloud.event_id, cloud.sector, [values.tobytes() for values in arrays_of(cloud)])
        for split in dataset
        for cloud in dataset[split]
    ]


def fail_after(_):
    raise RuntimeError("stop")


def arrays_of(cloud):
    arrays = list(cloud.columns.values())
    for pairs in (cloud.positives, cloud.negatives):
        if pairs is not None:
            arrays += [pairs.ptr, pairs.idx]
    return arrays


@pytest.mark.parametrize("file_format", ["parquet", "hdf5", "hdf5 with gzip"])
def test_no_flipped_byte_reaches_the_reader(tmp_path, make_dataset, file_format):
    """Either the bytes were not needed and the clouds are right, or the error names the shard."""
    folder = tmp_path / "a"
    make_dataset(folder, rows={"train": [2]})
    if file_format != "parquet":
        compression = "gzip" if "gzip" in file_format else "none"
        convert_dataset(folder, tmp_path / "b", "hdf5", compression=compression)
        folder = tmp_path / "b"
    expected = read_everything(folder)
    (path,) = (path for path in folder.iterdir() if path.name != MANIFEST_NAME)
    content = path.read_bytes()
    random = np.random.default_rng(3)
    n_noticed = 0
    for position in random.choice(len(content), 150, replace=False):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(random.integers(8))
        path.write_bytes(damaged)
        message = ""
        try:
            assert read_everything(folder) == expected
        except InputError as error:
            message = str(error)
        assert not message or path.name in message
        n_noticed += bool(message)
    assert n_noticed > 50


def test_every_byte_of_parquet_is_checked_or_not_used(tmp_path, make_dataset):
    """Content and footer are checked. A flipped bit in a page's header is found, or changes nothing."""
    folder = tmp_path / "a"
    make_dataset(folder, rows={"train": [1]})
    expected = read_everything(folder)
    (path,) = folder.glob("*.parquet")
    content, group = path.read_bytes(), pq.read_metadata(path).row_group(0)
    headers = set()
    for number in range(3, group.num_columns):
        begin = group.column(number).data_page_offset
        headers |= set(range(begin, begin + 40))
    first = group.column(3).data_page_offset
    n_silent = 0
    for position in range(first, len(content)):
        path.write_bytes(
            content[:position] + bytes([content[position] ^ 1 << position % 8]) + content[position + 1 :]
        )
        try:
            assert read_everything(folder) == expected
        except InputError:
            continue
        assert position in headers, f"byte {position - first} after the first page"
        n_silent += 1
    assert n_silent < len(headers) / 2


def test_damage_names_event_and_column(tmp_path, make_dataset):
    folder = tmp_path / "a"
    make_dataset(folder, rows={"train": [2]})
    (path,) = folder.glob("*.parquet")
    split = open_dataset(folder)["train"]
    split.read(1)
    number = 3 + split.column_names.index("eta")
    chunk = pq.read_metadata(path).row_group(1).column(number)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged bytes in event 1, sector 0, column eta"):
        split.read(1)
    assert split.read(0).event_id == 0
    assert split.read(1, ["phi"], pairs=False).n_points == 13


@pytest.mark.parametrize("file_format", ["parquet", "hdf5"])
def test_missing_and_truncated_shards(tmp_path, make_dataset, file_format):
    folder = tmp_path / "a"
    make_dataset(folder, rows={"train": [2]}, file_format=file_format)
    (path,) = (path for path in folder.iterdir() if path.name != MANIFEST_NAME)
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match=f"{path.name}: found {len(content) - 1} bytes instead of"):
        open_dataset(folder)["train"][0]
    path.unlink()
    with pytest.raises(
        InputError, match=f"{path.name}: found no such file; expected a shard that the manifest lists"
    ):
        open_dataset(folder)["train"][0]


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), write_atomically(tmp_path / "x") as file:
        fail_after(file.write(b"half"))
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_what_was_there(tmp_path):
    (tmp_path / "x").write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stop"), write_atomically(tmp_path / "x") as file:
        fail_after(file.write(b"new"))
    assert (tmp_path / "x").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (errno.ENOSPC, "found no space left on the disk; .*free some space"),
        (errno.EDQUOT, "found no space left on the disk"),
        (errno.EROFS, "a folder that cannot be written"),
        (errno.EACCES, "a folder that cannot be written"),
        (errno.EIO, "found the error"),
    ],
)
def test_the_disk_refuses(tmp_path, number, message):
    with pytest.raises(JobError, match=message), disk_errors(tmp_path):
        raise OSError(number, os.strerror(number))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_no_space_left_while_writing(tmp_path, make_cloud):
    """The device that is always full stands for the temporary file."""
    (tmp_path / ".x.parquet.tmp").symlink_to("/dev/full")
    with pytest.raises(JobError, match=r"x\.parquet: found no space left on the disk"):
        write_shard(tmp_path / "x.parquet", [make_cloud("pileup", 2000)], PILEUP)
    assert list(tmp_path.iterdir()) == []


def test_no_space_left_for_hdf5(tmp_path, make_dataset):
    """A limit on the size of files stands for the full disk: HDF5 must neither crash nor leave anything."""
    make_dataset(tmp_path / "a", "pileup", rows={"train": [20]})
    program = textwrap.dedent("""
        import resource, signal, sys
        from pathlib import Path
        from hepdata.errors import JobError
        from hepdata.storage.dataset.convert import convert_dataset
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
        try:
            convert_dataset(sys.argv[1], Path(sys.argv[2]), "hdf5")
        except JobError as error:
            print(error)
    """)
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a", tmp_path / "b"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "train.h5: found the error File too large" in done.stdout
    assert done.stderr == ""
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_read_only_folder(tmp_path, make_cloud):
    cloud = make_cloud("pileup", 2)
    tmp_path.chmod(0o500)
    child = os.fork()
    if not child:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setuid(65534)  # root may write anywhere
            write_shard(tmp_path / "x.parquet", [cloud], PILEUP)
        except JobError as error:
            code = 0 if "a folder that cannot be written (Permission denied)" in str(error) else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    tmp_path.chmod(0o700)
    assert status == 0


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(JobError, match="found the error"), lock_output(tmp_path / "file" / "out"):
        pass


def test_existing_output_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_bytes(b"")
    with (
        pytest.raises(InputError, match="out: found something that already exists"),
        lock_output(tmp_path / "out"),
    ):
        pass


def test_an_empty_folder_is_accepted(tmp_path, make_dataset):
    (tmp_path / "out").mkdir()
    with lock_output(tmp_path / "out"):
        make_dataset(tmp_path / "out")
    assert len(open_dataset(tmp_path / "out")["train"]) == 5


def test_second_builder_is_refused(tmp_path):
    program = textwrap.dedent(f"""
        import sys
        from pathlib import Path
        from hepdata.storage.dataset.lock import lock_output
        with lock_output(Path({str(tmp_path / "out")!r})):
            print("held", flush=True)
            sys.stdin.read()
    """)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(InputError, match="another process that is writing it"):  # noqa: SIM117
            with lock_output(tmp_path / "out"):
                pass
        # The process died without cleaning up: the operating system releases its lock.
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with lock_output(tmp_path / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_writer_killed_anywhere_leaves_no_dataset(tmp_path):
    """Killed at every step that touches the disk: the folder is absent or whole."""
    program = textwrap.dedent("""
        import os, signal, sys
        from pathlib import Path
        sys.path.insert(0, sys.argv[2])
        from conftest import _make_dataset
        import hepdata.loader.dataset, hepdata.storage.hdf5.writer
        count = 0
        STEPS = ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove")
        def watch(event, arguments):
            global count
            if event in STEPS and target in str(arguments):
                count += 1
                if count == deadly:
                    os.kill(os.getpid(), signal.SIGKILL)
        for deadly in range(1, 200):
            target = f"{sys.argv[1]}/{deadly}"
            child = os.fork()
            if not child:
                sys.addaudithook(watch)
                _make_dataset(Path(target), "pileup", {"train": [1]}, file_format="hdf5")
                os._exit(0)
            if os.waitpid(child, 0)[1] == 0:
                break
        print(deadly)
    """)
    tests = next(parent for parent in Path(__file__).parents if parent.name == "tests")
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path, tests], check=True, capture_output=True, text=True
    )
    n_steps = int(done.stdout)
    whole = [path for path in tmp_path.iterdir() if path.suffix != ".partial"]
    assert n_steps > 10
    assert tmp_path / str(n_steps) in whole
    assert len(whole) < n_steps / 2
    for folder in whole:
        assert len(read_everything(folder)) == 1


def test_staging_is_removed_whatever_happens(tmp_path):
    with pytest.raises(RuntimeError, match="stop"), fresh_staging(tmp_path / "out") as staging:
        fail_after((staging / "train.h5").write_bytes(b""))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["thesis.tex", "train.h5"])
def test_a_foreign_folder_with_the_name_of_a_staging_folder_is_kept(tmp_path, name):
    (tmp_path / ".out.new").mkdir()
    (tmp_path / ".out.new" / name).write_text("years of work")
    with pytest.raises(InputError, match=rf"\.out\.new: found '{name}'"), fresh_staging(tmp_path / "out"):
        pass
    assert (tmp_path / ".out.new" / name).read_text() == "years of work"


def test_finishing_needs_every_shard(tmp_path, make_cloud):
    staging = tmp_path / "staging"
    staging.mkdir()
    record = write_shard(staging / "train-00000-of-00001.parquet", [make_cloud("pileup")], PILEUP)
    (staging / record.name).unlink()
    with pytest.raises(InputError, match=f"{record.name}: found no such file"):
        finish_dataset(staging, tmp_path / "out", schema=PILEUP, splits={"train": [record]}, configuration={})


def test_finishing_refuses_mixed_pairs(tmp_path, make_cloud):
    from hepdata.schema import TRACKING

    staging = tmp_path / "staging"
    staging.mkdir()
    records = [
        write_shard(staging / f"{pairs}.parquet", [make_cloud(pairs=pairs)], TRACKING)
        for pairs in (True, False)
    ]
    with pytest.raises(InputError, match="shards with pair lists and shards without"):
        finish_dataset(
            staging, tmp_path / "out", schema=TRACKING, splits={"train": records}, configuration={}
        )


def test_finishing_removes_notes(tmp_path, make_cloud):
    staging = tmp_path / "staging"
    staging.mkdir()
    record = write_shard(staging / "train-00000-of-00001.parquet", [make_cloud("pileup")], PILEUP)
    (staging / f"{record.name}.json").write_text("{}")
    finish_dataset(staging, tmp_path / "out", schema=PILEUP, splits={"train": [record]}, configuration={})
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [MANIFEST_NAME, record.name]
    assert not staging.exists()


def test_finishing_keeps_what_it_did_not_write(tmp_path, make_cloud):
    staging = tmp_path / "staging"
    staging.mkdir()
    record = write_shard(staging / "train-00000-of-00001.parquet", [make_cloud("pileup")], PILEUP)
    (staging / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match=r"'thesis.tex', which no build writes"):
        finish_dataset(staging, tmp_path / "out", schema=PILEUP, splits={"train": [record]}, configuration={})
    assert (staging / "thesis.tex").read_text() == "years of work"


def test_a_moved_dataset_opens(tmp_path, make_dataset):
    make_dataset(tmp_path / "a")
    shutil.move(tmp_path / "a", tmp_path / "b")
    assert len(read_everything(tmp_path / "b")) == 8
