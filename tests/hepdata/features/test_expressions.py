import numpy as np
import pytest

from hepdata.errors import InputError
from hepdata.features.expressions import FUNCTIONS, parse_expression

COLUMNS = {
    "eta": np.array([-3.0, 0.25, 1.0], np.float32),
    "pt": np.array([1.0, 0.2, 0.9], np.float32),
    "label": np.array([1, 4503668346847233, 3]),
    "abs": np.array([1, 2, 3], np.int32),
    "small": np.array([1, 2, 200], np.uint8),
    "flag": np.array([True, False, True]),
}


def compute(text):
    return parse_expression(text, list(COLUMNS), "`select`").evaluate(COLUMNS)


ETA, PT, LABEL, FLAG = (COLUMNS[name] for name in ("eta", "pt", "label", "flag"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abs(eta) < 2.5 and pt > 0.5", (np.abs(ETA) < 2.5) & (PT > 0.5)),
        ("-1 < eta <= 1 or not flag", ((ETA > -1) & (ETA <= 1)) | ~FLAG),
        ("label == 4503668346847233", LABEL == 4503668346847233),
        ("where(label > 2, label, 0)", np.where(LABEL > 2, LABEL, 0)),
        ("hypot(eta, pt)", np.hypot(ETA, PT)),
        ("arctan2(pt, eta)", np.arctan2(PT, ETA)),
        ("pi * eta / 2 - +pt ** 2", np.pi * ETA / 2 - PT**2),
        ("label / 2", LABEL / 2),
        ("label % 2 != 0", LABEL % 2 != 0),
        # A column may have the name of a function.
        ("abs + abs(eta)", COLUMNS["abs"] + np.abs(ETA)),
        ("small + 100", np.array([101, 102, 300])),
    ],
)
def test_values_are_those_of_numpy(text, expected):
    found = compute(text)
    assert found.dtype.kind == expected.dtype.kind
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name, n in FUNCTIONS.items() if n == 1])
def test_every_function_is_that_of_numpy(name):
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(PT)
    np.testing.assert_allclose(compute(f"{name}(pt)"), expected, rtol=1e-6)


@pytest.mark.parametrize(("dtype", "divisor"), [(np.int32, "-1"), (np.int64, "-1"), (np.int64, "x * 0 - 1")])
def test_the_remainder_of_the_lowest_integer_does_not_end_the_process(dtype, divisor):
    columns = {"x": np.array([np.iinfo(dtype).min, 7], dtype)}
    found = parse_expression(f"x % ({divisor})", ["x"], "`select`").evaluate(columns)
    assert list(found) == [0, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ete < 1", r"the unknown column 'ete'; expected a column.*did you mean 'eta'"),
        ("sqr(pt)", r"the unknown function 'sqr'.*did you mean 'sqrt'"),
        ("hypot(pt)", "1 arguments of hypot; expected 2"),
        ("eta <", "no expression"),
        ("", "no expression"),
        ("1 < 2", "no column in it"),
        ("-flag", "types that do not go together"),
        ("eta and pt", "types that do not go together"),
        ("2**99999999 * eta", "found '2 .* 99999999'; expected the number itself"),
        # Expressions cannot reach Python: no attributes, other calls, subscripts, strings or lambdas.
        ("eta.__class__", "found 'eta.__class__'"),
        ("().__class__.__base__.__subclasses__()", "expected columns, numbers"),
        ("__import__('os').system('true')", "expected columns, numbers"),
        ("__import__('os')", "the unknown function '__import__'"),
        ("eval('1')", "the unknown function 'eval'"),
        ("@eta < 1", "no expression"),
        ("eta[0] < 1", r"found 'eta\[0\]'"),
        ("eta < 'a'", "found \"'a'\""),
        ("(lambda: eta)()", "expected columns, numbers"),
        ("[eta for eta in pt]", "expected columns, numbers"),
        ("(eta := 1) < pt", "expected columns, numbers"),
        ("eta if flag else pt", "expected columns, numbers"),
        ("abs(*eta)", r"found '\*eta'"),
        ("abs(x=eta)", "expected columns, numbers"),
        ("pt; eta", "no expression"),
        ("(" * 500 + "eta" + ")" * 500, "no expression"),
        ("eta + " * 500 + "eta", "no expression"),
        ("eta < 1j", "found '1j'"),
        ("True and flag", "found 'True'"),
        ("eta is pt", "expected columns, numbers"),
        ("pt % (pt % eta)", r"found 'pt % \(pt % eta\)'"),
        ("1e999 * eta", "found '1e309'"),
        ("-" * 1900 + "eta", "nested deeper than 50 levels"),
        ("eta + " * 300 + "eta", "nested deeper than 50 levels"),
        ("not " * 300 + "flag", "nested deeper than 50 levels"),
        ("2**(+9999999999) * eta", "expected the number itself"),
        ("((9**(+99))**(+99))**(+99) * eta", "expected the number itself"),
    ],
)
def test_anything_else_is_one_line(text, message):
    with pytest.raises(InputError, match=message) as error:
        compute(text)
    assert "\n" not in str(error.value)
