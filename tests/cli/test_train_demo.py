import json
from pathlib import Path

from hept_cli import train


def test_the_demo_ends_with_its_pictures_and_reports(tmp_path, capsys):
    arguments = ["demo", str(tmp_path / "demo"), "--events", "20", "--epochs", "1"]
    train.group.main([*arguments, "--json", str(tmp_path / "d.json")], standalone_mode=False)
    result = json.loads((tmp_path / "d.json").read_text())
    said = capsys.readouterr().out.partition("Before and after training")[2]
    assert [path.rpartition("/runs/")[2] for path in result["reports"]] == [
        "tracking/report.html",
        "pileup/report.html",
    ]
    for path in result["reports"]:
        assert path in said
        assert "<html" in Path(path).read_text(encoding="utf-8")
    for path in result["pictures"]:
        assert path.rpartition("/")[2] in said
