"""Counts of columns against their plain definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hepdata.storage.statistics import ColumnStatistics, _count_column


@given(hnp.arrays(st.sampled_from(["f4", "i4", "i8", "?"]), st.integers(0, 40)))
def test_a_column_is_counted_by_its_definition(values):
    finite = values[np.isfinite(values)]
    found = _count_column(values)
    assert found.n_not_finite == len(values) - len(finite)
    assert found.minimum == (float(min(finite)) if len(finite) else None)
    assert found.maximum == (float(max(finite)) if len(finite) else None)
    assert found.total == float(finite.sum(dtype=np.float64))


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_nothing_finite(odd):
    assert _count_column(np.full(3, odd, np.float32)) == ColumnStatistics(n_not_finite=3)
