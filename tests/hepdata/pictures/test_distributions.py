"""Pictures of datasets: the right files, not blank, for every kind of dataset."""

import matplotlib.image
import numpy as np
import pytest

import hepdata
from hepdata.errors import InputError
from hepdata.pictures.distributions import _counts_of, _fill, plot_dataset
from hepdata.pipeline.build import SplitRule, build_dataset
from hepdata.pipeline.pileup_source import PileupSource, with_changes
from hepdata.pipeline.tracking_source import TRACKING_PRESETS, open_tracking
from hepdata.progress import Silent


def build_pileup(file, out, **changes):
    source = PileupSource.open([str(file)], with_changes("pileup-10k", **changes))
    build_dataset(source, out)
    return hepdata.open_dataset(out)


def is_drawn(path):
    image = matplotlib.image.imread(path)
    return len(np.unique(image[::4, ::4].sum(axis=2))) > 20


def test_pileup(pileup_file, tmp_path):
    dataset = build_pileup(pileup_file, tmp_path / "dataset")
    files = plot_dataset(dataset, tmp_path / "new" / "pictures", n_events=2)
    names = [file.name for file in files]
    assert names[:3] == ["features.png", "labels.png", "clouds.png"]
    assert names[3:] == ["event-000000000.png", "event-000000001.png"]
    assert all(is_drawn(file) for file in files)


def test_unlabelled_pileup_has_no_picture_of_labels(pileup_file, tmp_path):
    dataset = build_pileup(pileup_file, tmp_path / "dataset", is_labelled=False)
    files = plot_dataset(dataset, tmp_path / "pictures", n_events=1, max_clouds=2)
    assert [file.name for file in files] == ["features.png", "clouds.png", "event-000000000.png"]


def test_tracking(trackml_events, tmp_path):
    build_dataset(open_tracking(trackml_events, TRACKING_PRESETS["tracking-60k"]), tmp_path / "dataset")
    files = plot_dataset(hepdata.open_dataset(tmp_path / "dataset"), tmp_path / "pictures", n_events=1)
    assert [file.name for file in files][:3] == ["features.png", "labels.png", "clouds.png"]
    assert all(is_drawn(file) for file in files)


def test_an_empty_split(pileup_file, tmp_path):
    source = PileupSource.open([str(pileup_file)], with_changes("pileup-10k"))
    build_dataset(source, tmp_path / "dataset", split=SplitRule.parse("train=0-11"))
    with pytest.raises(InputError, match=r"found no clouds|found no such split"):
        plot_dataset(hepdata.open_dataset(tmp_path / "dataset"), tmp_path / "pictures", split="test")
    assert not (tmp_path / "pictures").exists()


def test_a_folder_that_cannot_be_made(pileup_file, tmp_path):
    dataset = build_pileup(pileup_file, tmp_path / "dataset")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="no folder can be created"):
        plot_dataset(dataset, tmp_path / "file" / "pictures")


def test_labels_of_particles_leave_noise_out(trackml_events, tmp_path):
    """Noise has pt 0 and η 0 in the files: no particle has."""
    build_dataset(open_tracking(trackml_events, TRACKING_PRESETS["tracking-60k"]), tmp_path / "dataset")
    dataset = hepdata.open_dataset(tmp_path / "dataset")
    clouds = [dataset["train"][i] for i in range(len(dataset["train"]))]
    assert any((cloud.particle_id == 0).any() for cloud in clouds)
    histograms, _ = _fill(dataset, iter(clouds), Silent())
    for name in ("pt", "particle_eta", "n_hits"):
        shown = _counts_of(histograms[name], ("particle",))
        values = np.concatenate([getattr(cloud, name)[cloud.particle_id != 0] for cloud in clouds])
        np.testing.assert_array_equal(shown[0], np.histogram(values, bins=histograms[name].edges)[0])
