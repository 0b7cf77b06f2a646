import numpy as np
import pytest

from hepdata.errors import InputError
from hepdata.readers.trackml_files import RawFile
from hepdata.readers.trackml_table import TableFormat, read_table

FORM = TableFormat(
    name="sample",
    columns={"id": "int64", "x": "float64", "unread": "float64"},
    needed=("id", "x"),
    optional=frozenset({"kind"}),
)


@pytest.fixture
def read(tmp_path):
    def read(text, *, is_counted=False):
        path = tmp_path / "sample.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_table(RawFile(None, str(path)), FORM, is_counted=is_counted)

    return read


def test_ids_beyond_2_to_the_53_are_exact(read):
    ids = [2**53 + 1, 2**62 + 12345, 9007199254740993, 4505867370102784]
    table = read("id,x,unread\n" + "".join(f"{number},1.5,0\n" for number in ids))
    assert table["id"].dtype == np.int64
    assert table["id"].tolist() == ids


@pytest.mark.parametrize("header", ["id,x,unread", ",id,x,unread", "Unnamed: 0,id,x,unread"])
def test_an_index_column_is_ignored(read, header):
    extra = "0," if header.count(",") == 3 else ""
    assert read(f"{header}\n{extra}7,1.5,0\n")["id"].tolist() == [7]


def test_columns_are_found_by_name_in_any_order(read):
    table = read("unread,kind,x,id\n0,-211,1.5,7\n")
    assert (table["id"][0], table["x"][0]) == (7, 1.5)


def test_byte_order_mark_and_windows_line_ends(read):
    assert read(b"\xef\xbb\xbfid,x,unread\r\n7,1.5,0\r\n")["x"].tolist() == [1.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no column 'id'"),
        ("id,y,unread\n1,2,3\n", "no column 'x'"),
        ("id,x\n1,2\n", "no column 'unread'"),
        ("id,x,x,unread\n1,2,3,4\n", "column 'x' twice"),
        ("id,x,unread,charge\n1,2,3,4\n", "an unknown column 'charge'"),
        ("id,x,unread\n1,2\n", "Expected 3 columns, got 2"),
        ("id,x,unread\n1,2,3,4\n", "Expected 3 columns, got 4"),
        ("id,x,unread\n1.5,2,3\n", "invalid value '1.5'"),
        ("id,x,unread\n99999999999999999999,2,3\n", "invalid value '99999999999999999999'"),
        ("id,x,unread\n1,two,3\n", "invalid value 'two'"),
        ("id,x,unread\n1,2,3\n1,nan,3\n", "column 'x', line 3: found no number"),
        ("id,x,unread\n1,,3\n", "column 'x', line 2: found no number"),
        ("id,x,unread\n1,2,3\n,2,3\n", "column 'id', line 3: found no number"),
        ("id,x,unread\n1,-inf,3\n", "column 'x', line 2: found -inf"),
        ("id,x,unread\n1,1e999,3\n", "column 'x', line 2: found inf"),
        ("id,x,unread\n0x10,1,3\n", "the character 'x' among the numbers"),
        (b"id,x,unread\n1,1,\xff\n", "the character '\ufffd' among the numbers"),
        (b"\x1f\x8b\xff\xfe\x00\n", "not text in the first line"),
    ],
)
def test_bad_tables_have_their_own_message(read, text, message):
    with pytest.raises(InputError, match=message):
        read(text)


def test_messages_stay_on_one_short_line(read):
    with pytest.raises(InputError) as caught:
        read("id,x,unread\n" + "1,2\n" * 1000 + "x" * 5000)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize(
    "text", ["id,x,unread\n1,2,3\n4,5,67", "id,x,unread\n1,2,3", "id,unread,x\n1,2,3.25\n4,5,6.2"]
)
def test_a_last_line_without_an_end_may_be_cut_even_if_it_has_all_its_values(read, text):
    message = (
        "a last line without a line end .*: the file may be cut, and its last number too; .* add a line end"
    )
    with pytest.raises(InputError, match=message):
        read(text)
    assert len(read(text + "\n")["x"]) == text.count("\n")


def test_a_last_line_without_an_end_is_read_if_its_ids_are_compared_and_it_has_all_its_values(read):
    assert read("id,x,unread\n1,2,3\n4,5,67", is_counted=True)["id"].tolist() == [1, 4]
    for cut in ("4,5,", "4,5, ", "4,5", "4,5,6e-"):
        with pytest.raises(InputError, match=r"without a line end|Expected 3 columns|'x'|invalid value|e-"):
            read("id,unread,x\n1,2,3\n" + cut, is_counted=True)
    with pytest.raises(InputError, match="without a line end"):
        read("id,x,unread\n1,2,3\n4,5,", is_counted=True)


@pytest.mark.parametrize(("x", "is_inside"), [("-5", True), ("7.5", True), ("7.6", False), ("-1e30", False)])
def test_values_have_bounds(tmp_path, x, is_inside):
    path = tmp_path / "sample.csv"
    path.write_text(f"id,x,unread\n1,0,0\n2,{x},0\n")
    form = TableFormat("sample", FORM.columns, FORM.needed, bounds={"x": (-5, 7.5)})
    if is_inside:
        assert read_table(RawFile(None, str(path)), form)["x"][1] == float(x)
    else:
        with pytest.raises(InputError, match=r"'x', line 3: found .*; expected a number from -5 to 7.5"):
            read_table(RawFile(None, str(path)), form)
