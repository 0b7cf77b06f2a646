import csv
import dataclasses

import numpy as np
import pytest

from hept.paper.theory.checks import check_lemmas
from hept.paper.theory.experiment import METHODS, ExperimentConfig, run_experiment
from hept.paper.theory.picture import draw_tradeoff, write_csv


@pytest.fixture(scope="module")
def result():
    quick = ExperimentConfig.quick()
    return run_experiment(
        dataclasses.replace(quick, n_points=1500, side=quick.side / np.sqrt(2), widths=quick.widths[::2])
    )


def at_budget(result, method, budget):
    return [one for one in result.of_method(method) if one.budget <= budget][-1].error


def test_the_published_ranges_are_searched():
    config = ExperimentConfig()
    assert config.n_points == 30_000
    assert config.widths[0] == 0.01
    assert config.widths[1] == 0.06
    assert config.widths[-1] == 4.96
    assert len(config.widths) == 100


def test_hashing_beats_random_features_below_quadratic_cost(result):
    budget = result.config.n_points**2
    assert at_budget(result, "OR-only LSH", budget) < 0.1 * at_budget(result, "RFF", budget)


def test_and_functions_beat_tables_alone_at_near_linear_cost(result):
    budget = 3000 * result.config.n_points
    assert at_budget(result, "OR & AND LSH", budget) < 0.7 * at_budget(result, "OR-only LSH", budget)


def test_more_operations_never_err_more(result):
    for method in METHODS:
        errors = [one.error for one in result.of_method(method)]
        assert errors == sorted(errors, reverse=True)
        assert all(one.flops <= one.budget for one in result.of_method(method))


def test_or_and_and_contains_or_only(result):
    or_only = {one.budget: one.error for one in result.of_method("OR-only LSH")}
    both = {one.budget: one.error for one in result.of_method("OR & AND LSH")}
    assert or_only
    assert all(both[budget] <= error for budget, error in or_only.items())


def test_random_features_fall_as_one_over_their_number(result):
    found = {one.n_features: one.error - result.truncation_error for one in result.of_method("RFF")}
    for features, error in found.items():
        if 2 * features in found:
            assert found[2 * features] == pytest.approx(error / 2)


def test_the_same_seed_gives_the_same_numbers(result):
    again = run_experiment(result.config)
    assert again.best == result.best


def test_csv_and_figure_hold_what_was_found(result, tmp_path):
    rows = list(csv.DictReader(write_csv(result, tmp_path / "theory.csv").open()))
    assert len(rows) == len(result.best)
    assert float(rows[0]["error"]) == result.best[0].error
    wide, narrow = draw_tradeoff(result).axes
    drawn = {line.get_label(): line.get_xydata() for line in wide.lines}
    np.testing.assert_allclose(
        drawn["OR & AND LSH"], [(one.flops, one.error) for one in result.of_method("OR & AND LSH")]
    )
    assert narrow.get_xlim()[1] == result.config.n_points**2


def test_every_lemma_holds():
    checks = check_lemmas(seed=1)
    assert len(checks) == 5
    assert [one.claim for one in checks if not one.holds] == []
