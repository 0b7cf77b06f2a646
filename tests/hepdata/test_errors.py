import pickle

import pytest

from hepdata.errors import HeptError, InputError, JobError, missing_extra, nearest_name


def test_message_answers_where_found_expected_remedy():
    error = InputError("hits.csv", found="no column 'x'", expected="hit positions", remedy="use the raw file")
    assert str(error) == "hits.csv: found no column 'x'; expected hit positions; use the raw file"


def test_a_message_is_one_line_whatever_a_name_contains():
    error = InputError("a\nb\r", found="\x1b[2J", expected="x\ny", remedy="z")
    assert str(error) == "a\\nb\\r: found \\x1b[2J; expected x\\ny; z"


@pytest.mark.parametrize(("kind", "code"), [(InputError, 2), (JobError, 1)])
def test_errors_survive_a_process_boundary(kind, code):
    error = kind("event 7", found="a", expected="b", remedy="c")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert (again.where, again.found, again.expected, again.remedy) == ("event 7", "a", "b", "c")
    assert str(again) == str(error)
    assert again.exit_code == code
    assert isinstance(again, HeptError)


def test_nearest_name_proposes_the_closest_or_lists_all():
    assert nearest_name("n_table", ["n_tables", "n_heads"]) == "did you mean 'n_tables'?"
    assert nearest_name("zzz", ["b", "a"]) == "choose one of a, b"


def test_missing_extra_gives_the_install_command():
    assert "pip install 'hept[dask]'" in str(missing_extra("distributed", "dask"))
