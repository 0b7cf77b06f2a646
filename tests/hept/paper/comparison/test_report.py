import csv
import dataclasses

import numpy as np
import pytest

from hepdata.schema import TRACKING
from hept.paper.comparison.claims import check_claims, tabulate_claims
from hept.paper.comparison.comparison import ComparisonSettings, Findings
from hept.paper.comparison.paper_tables import ResultTable, make_tables
from hept.paper.comparison.published import (
    accuracy_of,
    find_comparable,
    latency_of,
    memory_of,
    nearest_set,
    time_of,
)
from hept.paper.comparison.report import draw_accuracy, draw_scaling, format_cell, to_markdown, write_tables
from hept.paper.comparison.trainings import PAPER_MODELS, TABLES, Budget


def cost(test_ms, **more):
    return {
        "points": 6000.0,
        "parameters": 330000.0,
        "gmacs": 5.0,
        "test_ms": test_ms,
        "test_gb": 0.1,
        "train_ms": 3 * test_ms,
        "train_gb": 0.3,
        **more,
    }


@pytest.fixture
def findings():
    """A comparison with exactly the paper's results on Tracking-6k."""
    scores = {name: accuracy_of(name, "Tracking-6k") / 100 for name in PAPER_MODELS}
    scores |= {"hept-dot": 0.72, "or-only": 0.71, "or-only-tied": 0.78, "or-and": 0.70, "or-and-tied": 0.88}
    return Findings(
        task="tracking",
        target=TRACKING.target,
        source="data/trk",
        points_per_cloud=6800.0,
        settings=ComparisonSettings(PAPER_MODELS, TABLES, Budget()),
        accuracy={name: {"ap@0.9": score, "epochs": 3.0} for name, score in scores.items()},
        cost={"hept": cost(7.0), "gcn": cost(138.0, graph_ms=129.0), "dgcnn": cost(287.0)},
        grid={(3, 100): ({"ap@0.9": 0.92}, cost(7.0)), (1, 50): (None, cost(5.0))},
        latency={
            "test_attention": 8.0,
            "test_other": 2.0,
            "train_loss_backward": 5.0,
            "train_attention": 3.0,
            "train_other": 2.0,
        },
        scaling={"hept": [cost(3.0, points=1024.0), cost(6.0, points=2048.0)], "gcn": []},
    )


def table(tables, name):
    return next(one for one in tables if one.name == name)


def test_table_1_has_every_system_with_the_published_number_beside_it(findings):
    found = table(make_tables(findings), "accuracy")
    assert len(found.rows) == 17
    assert [row[0] for row in found.rows][-1] == "HEPT"
    for label, ours, published, _ in found.rows:
        assert ours == pytest.approx(published), label
    assert found.header[2] == "paper, Tracking-6k"


def test_other_sizes_of_clouds_get_no_published_numbers(findings):
    small = dataclasses.replace(findings, points_per_cloud=1500.0)
    found = table(make_tables(small), "accuracy")
    assert all(row[2] is None for row in found.rows)
    assert "not comparable with any set of the paper" in found.notes[0]


@pytest.mark.parametrize(
    ("task", "points", "expected"),
    [
        ("tracking", 6800, "Tracking-6k"),
        ("tracking", 56_700, "Tracking-60k"),
        ("pileup", 10_300, "Pileup-10k"),
        ("tracking", 20_000, None),
        ("pileup", 2000, None),
    ],
)
def test_comparable_sets_have_the_task_and_about_the_size(task, points, expected):
    assert find_comparable(task, points) == expected


def test_published_numbers_are_those_of_the_paper():
    assert accuracy_of("hept", "Tracking-60k") == 91.93
    assert accuracy_of("dgcnn", "Pileup-10k") == 33.75
    assert time_of("gcn", "Tracking-60k") == (7332, 5009, 5123)
    assert memory_of("hept", "Pileup-10k") == (8.5, 1.3, 0.2)
    assert time_of("or-only", "Tracking-6k") == (None, None, None)
    assert sum(value or 0 for value in latency_of("Tracking-6k")[1]) == pytest.approx(338, abs=1)
    assert nearest_set("pileup", 100) == "Pileup-10k"
    assert nearest_set("tracking", 50_000) == "Tracking-60k"
    assert nearest_set("tracking", 18_000) == "Tracking-6k"
    assert nearest_set("jets", 50_000) is None


def test_time_memory_and_grid_show_what_was_measured(findings):
    tables = make_tables(findings)
    gcn = table(tables, "time").rows[1]
    assert gcn == ["GCN", 414.0, 138.0, 129.0, 471, 129, 138]
    assert table(tables, "memory").rows[0][:3] == ["HEPT", 330000, 5.0]
    # Published grids are for Tracking-60k: not comparable with clouds of 6,800 points.
    assert table(tables, "sensitivity").rows[0][:4] == [3, 100, pytest.approx(92.0), 5.0]
    assert table(tables, "sensitivity").rows[1] == [1, 50, None, 5.0, None, None]


def test_latency_shares_add_up_within_a_phase(findings):
    rows = table(make_tables(findings), "latency").rows
    assert [row[3] for row in rows] == pytest.approx([80, 20, 50, 30, 20])


def test_claims_hold_for_the_paper_s_own_numbers(findings):
    claims = check_claims(findings)
    assert len(claims) == 14
    assert [claim.text for claim in claims if not claim.holds] == []


def test_claims_fail_where_the_order_is_turned_round(findings):
    for name, found in findings.accuracy.items():
        findings.accuracy[name] = found | {"ap@0.9": 1 - found["ap@0.9"]}
    findings.cost["hept"]["test_ms"] = 1000.0
    assert not any(claim.holds for claim in check_claims(findings))
    assert {row[2] for row in tabulate_claims(findings).rows} == {"no"}


def test_failures_and_stops_are_told(findings):
    findings.failed["gcn"] = "found a loss of nan"
    findings.is_stopped = True
    del findings.accuracy["gcn"]
    found = table(make_tables(findings), "accuracy")
    assert found.rows[PAPER_MODELS.index("gcn")] == ["GCN", None, 79.61, None]
    assert any("gcn failed: found a loss of nan" in note for note in found.notes)
    assert any("the same command continues" in note for note in found.notes)


def test_report_writes_markdown_csv_and_pictures(findings, tmp_path):
    tables = [*make_tables(findings), tabulate_claims(findings)]
    write_tables(findings, tables, tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"compare.md"} | {f"{one.name}.{kind}" for one in tables for kind in ("csv", "png")}
    text = (tmp_path / "compare.md").read_text()
    assert text.count("\n## ") == len(tables)
    rows = list(csv.reader((tmp_path / "time.csv").open()))
    assert rows[2] == ["GCN", "414.0", "138.0", "129.0", "471", "129", "138"]


def test_markdown_keeps_columns_whole():
    made = to_markdown([ResultTable("a", "A", ["x", "y"], [["b|c", 1234567], [None, float("nan")]], ["n"])])
    assert "| b\\|c | 1,234,567 |" in made
    assert "| – | – |" in made
    assert format_cell(0.123456) == "0.1235"
    assert format_cell(12345.6) == "12,346"


def test_figures_show_the_numbers(findings):
    panel = draw_accuracy(findings, make_tables(findings)).axes[0]
    assert len(panel.patches) == len(findings.accuracy)
    assert panel.patches[0].get_width() == pytest.approx(5.88)
    assert len(panel.lines[0].get_xdata()) == 17
    panels = draw_scaling(findings).axes
    np.testing.assert_allclose(panels[0].lines[0].get_xydata(), [(1024, 3), (2048, 6)])
