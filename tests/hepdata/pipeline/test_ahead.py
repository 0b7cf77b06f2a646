"""Items made ahead: the same in the same order, errors in their place, nothing left running."""

import threading

import pytest

from hepdata.pipeline.ahead import run_ahead


def count(to, made, closed):
    try:
        for number in range(to):
            made.append((number, threading.current_thread().name))
            yield number
    finally:
        closed.append(True)


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("to", [0, 1, 7])
def test_the_same_items_in_the_same_order(to, depth):
    made, closed = [], []
    assert list(run_ahead(count(to, made, closed), depth=depth)) == list(range(to))
    assert closed == [True]
    assert all(name.startswith("ahead") for _, name in made)


def test_no_more_are_made_than_may_wait():
    made, closed = [], []
    items = run_ahead(count(100, made, closed), depth=2)
    for used in range(10):
        assert next(items) == used
        assert len(made) <= used + 1 + 2
    items.close()
    assert closed == [True]
    assert len(made) <= 13


def test_the_next_is_made_while_one_is_used():
    is_made = threading.Event()

    def two():
        yield 1
        is_made.set()
        yield 2

    items = run_ahead(two())
    assert next(items) == 1
    assert is_made.wait(60)
    assert list(items) == [2]


def test_an_error_comes_in_its_place():
    def broken():
        yield 1
        raise ValueError("two is missing")

    items = run_ahead(broken())
    assert next(items) == 1
    with pytest.raises(ValueError, match="two is missing"):
        next(items)
    assert list(items) == []
