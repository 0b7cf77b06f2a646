import pytest
import torch

from hept.threads import share_out

CPU = torch.device("cpu")


@pytest.fixture(params=[1, 2, 4])
def n_threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("n_pieces", [0, 1, 3, 10])
def test_every_piece_is_done_once(n_threads, n_pieces):
    done = []
    share_out(done.extend, n_pieces, CPU)
    assert sorted(done) == list(range(n_pieces))


def test_threads_share_the_cores_and_the_modes_of_the_caller(n_threads):
    seen = []

    def look(_):
        seen.append(
            (
                torch.get_num_threads(),
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
            )
        )

    with torch.inference_mode():
        share_out(look, 4, CPU)
    assert seen == [(1, False, True)] * n_threads
    assert torch.get_num_threads() == n_threads


def test_an_error_reaches_the_caller(n_threads):
    def fail(pieces):
        if 2 in pieces:
            raise ValueError("piece 2")

    with pytest.raises(ValueError, match="piece 2"):
        share_out(fail, 4, CPU)
    assert torch.get_num_threads() == n_threads
