"""Launches, bytes, synchronisations and memory against counts by hand."""

import torch

from benchmarks.traffic import Traffic, TrafficCounter, register_traffic


def count(work, *args):
    with TrafficCounter("cpu") as counter:
        work(*args)
    return counter


def test_an_operator_reads_its_inputs_and_writes_its_output():
    a, b = torch.ones(10, 7), torch.ones(10, 7)
    counter = count(torch.add, a, b)
    assert (counter.n_launches, counter.n_bytes) == (1, 3 * 70 * 4)
    assert counter.by_operator == {"aten.add": Traffic(1, 840)}


def test_views_and_empty_memory_cost_nothing():
    counter = count(
        lambda x: (x.mT, x[2:], x.view(-1), x.expand(3, 10, 7), torch.empty_like(x)), torch.ones(10, 7)
    )
    assert (counter.n_launches, counter.n_bytes) == (0, 0)


def test_an_expanded_axis_is_read_once():
    row, rows = torch.ones(7), torch.ones(10, 7)
    assert count(torch.mul, rows, row.expand(10, 7)).n_bytes == 4 * (70 + 7 + 70)


def test_in_place_work_is_a_launch():
    assert count(lambda x: x.add_(1), torch.ones(8)).n_launches == 1


def test_a_look_up_moves_what_it_finds():
    counter = count(torch.index_select, torch.ones(1000, 2), 0, torch.tensor([3, 4, 5]))
    assert counter.n_bytes == 3 * 8 + 2 * 3 * 2 * 4


def test_waits_are_values_and_sizes_that_the_host_reads():
    x = torch.arange(5.0)
    assert count(lambda: x.sum().item()).n_waits == 1
    assert count(lambda: x[x > 2]).n_waits == 1
    assert count(lambda: x.nonzero()).n_waits == 1
    assert count(lambda: x * 2 + 1).n_waits == 0


def test_a_copy_from_the_host_waits_unless_told_not_to():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(), TrafficCounter("meta") as counter:
        torch.ones(3).to("meta", non_blocking=True)
        assert counter.n_waits == 0
        torch.ones(3).to("meta")
    assert counter.n_waits == 1


def test_peak_is_that_of_tensors_that_live_at_one_time():
    def work():
        for _ in range(5):
            first = torch.ones(1000)
            second = first * 2
            del first, second

    assert count(work).peak == 8000


def test_other_devices_do_not_count():
    with TrafficCounter("cuda") as counter:
        torch.ones(3) + 1
    assert counter.n_launches == 0


def test_an_operator_may_have_a_formula():
    @torch.library.custom_op("hept_test::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    @register_traffic(torch.ops.hept_test.twice)
    def formula(x):
        return Traffic(5, x.numel())

    counter = count(twice, torch.ones(3))
    assert counter.by_operator["hept_test.twice"] == Traffic(5, 3)
