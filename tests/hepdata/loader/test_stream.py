"""Batches: the right tensors, in the right order, for any number of workers, and after a resume."""

import subprocess
import sys
import threading
import warnings

import numpy as np
import pytest
import torch

import hepdata
from hepdata.errors import InputError
from hepdata.schema import TRACKING


@pytest.fixture(scope="module", params=["parquet", "hdf5"])
def split(request, tmp_path_factory, make_dataset):
    folder = tmp_path_factory.mktemp("data") / "a"
    make_dataset(folder, rows={"train": [5, 4, 4]}, file_format=request.param)
    return hepdata.open_dataset(folder)["train"]


def events_of(loader):
    return [batch.event_id.tolist() for batch in loader]


def test_one_flat_axis(split):
    (batch, *_) = split.loader(batch_size=3)
    clouds = split[:3]
    assert batch.n_clouds == 3
    assert batch.n_points == sum(cloud.n_points for cloud in clouds)
    assert batch.offsets.tolist() == [0, 10, 23, 39]
    assert batch.cloud_index.tolist() == [0] * 10 + [1] * 13 + [2] * 16
    assert batch.event_id.tolist() == [0, 1, 2]
    assert batch.sector.tolist() == [0, 0, 0]
    expected = np.concatenate([cloud.particle_id for cloud in clouds])
    np.testing.assert_array_equal(batch.particle_id.numpy(), expected)
    assert batch.particle_id.dtype == torch.int64
    assert batch.is_reconstructable.dtype == torch.bool


def test_features_and_coordinates_are_scaled_as_stored(split):
    (batch, *_) = split.loader(batch_size=2)
    for matrix, inputs in ((batch.features, TRACKING.features), (batch.coords, TRACKING.coordinates)):
        assert matrix.dtype == torch.float32
        assert matrix.shape == (23, len(inputs))
        for j, entry in enumerate(inputs):
            expected = np.concatenate([cloud.columns[entry.column] for cloud in split[:2]]) * entry.scale
            np.testing.assert_allclose(matrix[:, j].numpy(), expected.astype(np.float32), rtol=1e-6)


def test_unscaled_on_request(split):
    (batch, *_) = split.loader(scaled=False, features=["u", "layer"], coords=["phi"])
    np.testing.assert_array_equal(batch.features[:, 0].numpy(), split[0].u)
    np.testing.assert_array_equal(batch.features[:, 1].numpy(), split[0].layer)
    np.testing.assert_array_equal(batch.coords[:, 0].numpy(), split[0].phi)


def test_chosen_features_keep_their_scale(split):
    (batch, *_) = split.loader(features=["z", "phi", "pt"])
    expected = np.stack([split[0].z * 1e-3, split[0].phi / np.pi, split[0].pt], axis=1)
    np.testing.assert_allclose(batch.features.numpy(), expected, rtol=1e-6)


def test_select_reads_and_carries_only_those(split):
    (batch, *_) = split.loader(select=["particle_id", "eta", "r"], coords=["eta"], pairs=False)
    assert list(batch.columns) == ["particle_id", "eta", "r"]
    expected = np.stack([split[0].r * 1e-3, split[0].eta], axis=1)
    np.testing.assert_allclose(batch.features.numpy(), expected, rtol=1e-6)
    assert batch.positives is None
    with pytest.raises(AttributeError, match="Batch has no column 'phi'"):
        batch.phi  # noqa: B018


def test_unknown_feature(split):
    with pytest.raises(InputError, match="column 'radius'"):
        split.loader(features=["radius"])


def test_pairs_are_shifted_to_the_flat_axis(split):
    (batch, *_) = split.loader(batch_size=3)
    edges = batch.negatives.as_edges()
    start = 0
    for b, cloud in enumerate(split[:3]):
        own = cloud.negatives.as_edges()
        part = edges[:, start : start + own.shape[1]]
        np.testing.assert_array_equal(part.numpy(), own + batch.offsets[b].item())
        start += own.shape[1]
    assert start == batch.negatives.n_pairs
    assert batch.negatives.ptr.dtype == torch.int64
    particle = batch.particle_id
    anchors, partners = batch.positives.as_edges()
    assert torch.equal(particle[anchors], particle[partners])
    assert torch.equal(batch.cloud_index[anchors], batch.cloud_index[partners])


def test_batches_of_one_share_no_warning(split):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for batch in split.loader():
            batch.particle_id.add_(0)


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_workers_change_nothing(split, workers, prefetch):
    arguments = {"batch_size": 2, "shuffle": True, "seed": 3, "buffer": 6}
    plain = list(split.loader(**arguments, prefetch=0))
    ahead = list(split.loader(**arguments, workers=workers, prefetch=prefetch))
    assert len(plain) == len(ahead) == 7
    for a, b in zip(plain, ahead, strict=True):
        assert torch.equal(a.features, b.features)
        assert torch.equal(a.positives.idx, b.positives.idx)


def test_ranks_share_an_epoch(split):
    parts = [split.loader(batch_size=2, shuffle=True, rank=rank, world_size=3) for rank in range(3)]
    events = [events_of(part) for part in parts]
    assert len({len(own) for own in events}) == 1
    assert sorted(event for own in events for batch in own for event in batch) == list(range(13))


def test_every_iteration_is_another_epoch(split):
    loader = split.loader(shuffle=True)
    first, second = events_of(loader), events_of(loader)
    assert first != second
    loader.set_epoch(0)
    assert events_of(loader) == first
    fixed = split.loader()
    assert events_of(fixed) == events_of(fixed)


@pytest.mark.parametrize("stop_after", [0, 1, 3, 6, 7])
def test_resume_in_the_middle_of_an_epoch(split, stop_after):
    arguments = {"batch_size": 2, "shuffle": True, "seed": 1, "workers": 2}
    whole = split.loader(**arguments)
    whole.set_epoch(4)
    expected = events_of(whole) + events_of(whole)
    first = split.loader(**arguments)
    first.set_epoch(4)
    stream, seen = iter(first), []
    for _ in range(stop_after):
        seen.append(next(stream).event_id.tolist())
    state = first.state_dict()
    stream.close()
    second = split.loader(**arguments | {"workers": 0})
    second.load_state_dict(state)
    second.set_epoch(state["epoch"])
    rest = events_of(second) + events_of(second)
    assert (seen + rest)[: len(expected)] == expected


def test_a_left_iteration_begins_anew(split):
    loader = split.loader(shuffle=True)
    expected = events_of(split.loader(shuffle=True))
    next(iter(loader))
    assert events_of(loader) == expected


@pytest.mark.parametrize("change", [{"batch_size": 3}, {"seed": 1}, {"shuffle": False}, {"buffer": 2}])
def test_state_of_another_loader_is_refused(split, change):
    state = split.loader(batch_size=2, shuffle=True).state_dict()
    other = split.loader(**{"batch_size": 2, "shuffle": True} | change)
    with pytest.raises(InputError, match=f"loader state, {next(iter(change))}"):
        other.load_state_dict(state)


def test_state_of_another_dataset_is_refused(split, tmp_path, make_dataset):
    make_dataset(tmp_path / "a", first_event=7)
    other = hepdata.open_dataset(tmp_path / "a")["train"].loader()
    with pytest.raises(InputError, match="loader state, fingerprint"):
        other.load_state_dict(split.loader().state_dict())


def test_threads_end_with_the_iteration(split):
    stream = iter(split.loader(workers=2))
    next(stream)
    stream.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hepdata-loader")]


ENDINGS = {
    "left by break": "for batch in split.loader(workers=2): break",
    "held by a variable": "stream = iter(split.loader(workers=2)); next(stream)",
    "held by a cycle": "held = [iter(split.loader(workers=2))]; next(held[0]); held.append(held)",
    "clouds held": "clouds = [split[0], split[1]]",
    # After the end of all threads: none can be started any more.
    "read at exit": "split[0]; atexit.register(lambda: [split[1], *split.loader(workers=2)])",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_interpreter_ends_in_silence(split, ending):
    """Whatever is under way when a script ends, nothing is printed about it."""
    script = f"""
import atexit
import hepdata, torch
split = hepdata.open_dataset({str(split.root.location)!r})["train"]
{ENDINGS[ending]}
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=1200
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_at_most_so_many_batches_are_read_ahead(split, monkeypatch):
    loader = split.loader(workers=2, prefetch=1)
    started = []
    read_batch = loader.read_batch
    loader.read_batch = lambda indices, epoch: started.append(1) or read_batch(indices, epoch)
    stream = iter(loader)
    for n_taken in range(1, 6):
        next(stream)
        assert len(started) <= n_taken + 3
    stream.close()


def test_damage_reaches_the_caller(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", rows={"train": [1, 1]})
    path = sorted((tmp_path / "a").glob("*.parquet"))[1]
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)
    stream = iter(hepdata.open_dataset(tmp_path / "a")["train"].loader(workers=2))
    next(stream)
    with pytest.raises(InputError, match=path.name):
        next(stream)


def test_moving_a_batch(split):
    (batch, *_) = split.loader(batch_size=2)
    moved = batch.to("meta", non_blocking=True)
    assert {moved.features.device.type, moved.negatives.idx.device.type, moved.pt.device.type} == {"meta"}
    assert moved.n_clouds == 2


def test_empty_split(tmp_path, make_dataset):
    make_dataset(tmp_path / "a", rows={"train": [1], "valid": []})
    loader = hepdata.open_dataset(tmp_path / "a")["valid"].loader(batch_size=2, shuffle=True)
    assert len(loader) == 0
    assert list(loader) == []


def test_clouds_without_points(tmp_path, make_cloud):
    from hepdata.loader.collate import BatchLayout, collate
    from hepdata.schema import PILEUP

    names = tuple(column.name for column in PILEUP.columns)
    layout = BatchLayout(PILEUP.features, PILEUP.coordinates, names, pairs=False)
    batch = collate([make_cloud("pileup", n) for n in (0, 3, 0)], layout)
    assert batch.offsets.tolist() == [0, 0, 3, 3]
    assert batch.cloud_index.tolist() == [1, 1, 1]
