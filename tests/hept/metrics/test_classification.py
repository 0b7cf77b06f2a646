import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

from hept.metrics import classify


def test_hand_counted():
    # From the top: right, wrong, right. Precisions at the two recalls: 1/1 and 2/3.
    result = classify(np.array([3.0, 2.0, 1.0, -1.0]), np.array([True, False, True, False]))
    assert result.auc == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)
    assert result.roc_auc == pytest.approx(3 / 4)
    assert result.f1 == pytest.approx(2 * 2 / (3 + 2))


@given(seed=st.integers(0, 1000), n=st.integers(2, 60), levels=st.sampled_from([2, 5, 1000]))
@settings(max_examples=40)
def test_agrees_with_scikit_learn(seed, n, levels):
    rng = np.random.default_rng(seed)
    labels = rng.random(n) < 0.4
    labels[:2] = [True, False]
    scores = rng.integers(-levels, levels, n).astype(np.float32)
    result = classify(scores, labels)
    assert result.auc == pytest.approx(average_precision_score(labels, scores))
    assert result.roc_auc == pytest.approx(roc_auc_score(labels, scores))
    assert result.f1 == pytest.approx(f1_score(labels, scores > 0))


def test_one_class_or_nothing_is_not_a_number():
    assert math.isnan(classify(np.array([1.0]), np.array([False])).auc)
    assert math.isnan(classify(np.array([1.0]), np.array([True])).roc_auc)
    assert math.isnan(classify(np.zeros(0), np.zeros(0, bool)).auc)


def test_unusable_input_is_named():
    with pytest.raises(ValueError, match="scores has 2 points, is_positive 1"):
        classify(np.zeros(2), np.zeros(1, bool))
    with pytest.raises(ValueError, match="not finite"):
        classify(np.array([np.nan]), np.zeros(1, bool))
