import pytest

from hepdata.errors import InputError
from hepdata.loader.dataset import open_dataset
from hept.evaluation.tuning import load_clustering, save_clustering, tune_clustering
from hept.model.weights import load_model
from hept.training.trainer import fit


def test_the_best_clustering_finds_most_tracks(tracking_dataset, small_config, tmp_path):
    run = fit(small_config("tracking-demo", "epochs=12"), tracking_dataset, tmp_path / "run").run
    trials = tune_clustering(load_model(run), open_dataset(tracking_dataset))
    assert trials[0].criterion == max(trial.criterion for trial in trials) > trials[-1].criterion
    rates = trials[0].rates
    purities = (1 - rates["fake_rate"]) * (1 - rates["fake_rate_target"])
    assert trials[0].criterion == pytest.approx(trials[0].efficiency * purities)
    assert {trial.clustering.method for trial in trials} == {"tree", "dbscan", "hdbscan"}
    assert load_clustering(run) is None
    save_clustering(run, trials[0].clustering)
    assert load_clustering(run) == trials[0].clustering


def test_pileup_has_no_tracks(pileup_dataset, small_config, tmp_path):
    run = fit(small_config("pileup-demo", "epochs=1"), pileup_dataset, tmp_path / "run").run
    with pytest.raises(
        InputError, match="found a pileup model, which classifies points; expected a model whose"
    ):
        tune_clustering(load_model(run), open_dataset(pileup_dataset))


@pytest.mark.parametrize(
    "text",
    [
        '{"eps": 1, "colour": 2}',
        '{"eps": Infinity}',
        '{"eps": "0.2"}',
        '{"min_points": 2.5}',
        '{"min_points": 0}',
        '{"method": "hdbscan", "min_points": 1}',
        '{"method": "dbscun"}',
        "[1]",
        "\udcff",
    ],
)
def test_a_damaged_choice_is_one_line(tmp_path, text):
    (tmp_path / "clustering.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"found a damaged file.*run hept-train tune-clustering again"):
        load_clustering(tmp_path)
