"""Large pieces of work in threads: a function of some pieces enters, all pieces are done when it returns.

Torch's own threads share every operation. Where operations are small, they wait for each other thousands of
times, and on a busy machine each wait may last milliseconds; a thread that has whole pieces to itself waits
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import torch


def count_workers(n_pieces: int, device: torch.device) -> int:
    """In how many threads `share_out` does so many pieces."""
    n_threads = torch.get_num_threads() if device.type == "cpu" else 1
    return max(1, min(n_threads, n_pieces))


def share_out(work: Callable[[Iterable[int]], None], n_pieces: int, device: torch.device) -> None:
    """Do the pieces 0 … n−1, on a CPU in as many threads as torch would use, elsewhere in this one.

    Args:
        work: Does the pieces that it is given; called once in each thread. Pieces are given out as they are
            asked for, so that a thread which is held up leaves more to the others.
        n_pieces: How many pieces.
        device: Where the work happens.
    """
    n_workers = count_workers(n_pieces, device)
    if n_workers == 1:
        work(range(n_pieces))
        return
    n_threads = torch.get_num_threads()
    is_inference, has_grad = torch.is_inference_mode_enabled(), torch.is_grad_enabled()
    pieces = iter(range(n_pieces))

    def do_some(_: int) -> None:
        # All three are settings of a thread, and end with it.
        torch.set_num_threads(n_threads // n_workers)
        with torch.inference_mode(is_inference), torch.set_grad_enabled(has_grad):
            work(pieces)

    try:
        with ThreadPoolExecutor(n_workers) as pool:
            list(pool.map(do_some, range(n_workers)))
    finally:
        # What threads that are still to come begin with.
        torch.set_num_threads(n_threads)
