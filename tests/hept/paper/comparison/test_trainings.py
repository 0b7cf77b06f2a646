import pytest

from hepdata.errors import InputError
from hept.paper.comparison.trainings import (
    ABLATIONS,
    PAPER_MODELS,
    TABLES,
    Budget,
    choose_models,
    choose_tables,
    parse_budget,
    plan_accuracy,
    plan_sensitivity,
)
from hept.settings.load import load_config


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        (None, Budget()),
        ("20epochs", Budget(epochs=20)),
        ("1 epoch", Budget(epochs=1)),
        ("90s", Budget(minutes=1.5)),
        ("5min", Budget(minutes=5)),
        ("0.5h", Budget(minutes=30)),
    ],
)
def test_budgets_are_epochs_or_time(text, budget):
    assert parse_budget(text) == budget


@pytest.mark.parametrize("text", ["", "5", "0min", "2.5epochs", "five minutes", "-3s"])
def test_other_budgets_are_refused(text):
    with pytest.raises(InputError, match="expected epochs or time for each model, such as 20epochs"):
        parse_budget(text)


def test_all_models_are_the_rows_of_table_1():
    assert choose_models("all") == PAPER_MODELS
    assert len(PAPER_MODELS) == 17
    assert choose_models("gcn, hept,gcn") == ("gcn", "hept")


def test_unknown_models_and_tables_get_the_nearest_name():
    with pytest.raises(InputError, match="did you mean 'gravnet'"):
        choose_models("hept,gravnt")
    with pytest.raises(InputError, match="did you mean 'memory'"):
        choose_tables("memry")
    with pytest.raises(InputError, match="`models`"):
        choose_models(" , ")


def test_tables_come_in_their_order():
    assert choose_tables("all") == TABLES
    assert choose_tables("time,accuracy") == ("accuracy", "time")


def test_trials_share_all_but_the_model_and_keep_the_budget():
    base = load_config("tracking-demo", [])
    trials = plan_accuracy(base, Budget(epochs=3, minutes=2), ABLATIONS)
    assert [trial.config.model.kind for trial in trials] == list(ABLATIONS)
    for trial in trials:
        assert trial.config.epochs == 3
        assert trial.config.max_minutes == 2
        assert trial.config.optimizer == base.optimizer
        assert trial.config.model.hidden_dim == base.model.hidden_dim


def test_the_grid_is_that_of_table_5_at_the_published_block_size():
    grid = plan_sensitivity(load_config("tracking-60k", []), Budget())
    assert list(grid) == [(tables, block) for tables in (1, 3, 5) for block in (50, 100, 150)]
    # The middle of the grid is HEPT itself, trained once for all tables.
    assert grid[3, 100] == plan_accuracy(load_config("tracking-60k", []), Budget(), ["hept"])[0]
    assert len({trial.key for trial in grid.values()}) == 9


def test_fingerprints_change_with_dataset_model_and_budget():
    base = load_config("tracking-demo", [])
    seen = {
        trial.fingerprint(dataset)
        for dataset in ("a", "b")
        for budget in (Budget(), Budget(epochs=99))
        for trial in plan_accuracy(base, budget, ["hept", "gcn"])
    }
    assert len(seen) == 8
