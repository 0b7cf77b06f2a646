import pytest

from hepdata.errors import InputError
from hepdata.pictures.canvas import new_figure, save_figure


@pytest.mark.parametrize("name", ["a.png", "b.PDF", "c.svg"])
def test_a_picture_is_of_the_kind_that_its_name_says(tmp_path, name):
    figure, _ = new_figure()
    content = save_figure(figure, tmp_path / "new" / name).read_bytes()
    assert content.startswith({"a": b"\x89PNG", "b": b"%PDF", "c": b"<?xml"}[name[0]])


@pytest.mark.parametrize("name", ["a", "a.tracks"])
def test_another_suffix_is_one_line(tmp_path, name):
    figure, _ = new_figure()
    with pytest.raises(InputError, match=r"found the suffix .*; expected a picture: .*png"):
        save_figure(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_a_picture_that_cannot_be_drawn_leaves_the_old_one(tmp_path):
    path = tmp_path / "a.png"
    path.write_text("old")
    figure, (panel,) = new_figure()
    panel.set_title("$\\nothing$")
    with pytest.raises(ValueError, match="nothing"):
        save_figure(figure, path)
    assert [(entry.name, entry.read_text()) for entry in tmp_path.iterdir()] == [("a.png", "old")]
