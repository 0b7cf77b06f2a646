import json

import pytest
from click.testing import CliRunner

from hepdata.errors import InputError
from hept_cli.train_theory import command


def test_writes_figure_table_and_json(tmp_path):
    out, report = tmp_path / "theory", tmp_path / "theory.json"
    answer = CliRunner().invoke(
        command, [str(out), "--quick", "--points", "400", "--neighbors", "8", "--json", str(report)]
    )
    assert answer.exit_code == 0, answer.output
    assert "OR & AND LSH" in answer.output
    assert (out / "theory.png").read_bytes()[:4] == b"\x89PNG"
    assert (out / "theory.csv").read_text().startswith("method,flops,error")
    assert json.loads(report.read_text())["result"]["config"]["n_points"] == 400


def test_refuses_more_neighbors_than_points(tmp_path):
    with pytest.raises(InputError, match="fewer neighbours than points"):
        CliRunner().invoke(
            command, [str(tmp_path), "--points", "10", "--neighbors", "10"], catch_exceptions=False
        )
