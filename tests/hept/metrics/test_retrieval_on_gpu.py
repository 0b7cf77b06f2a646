"""AP@k on an emulated GPU that computes on the CPU and counts how often the host waits."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch

from benchmarks.stand_in import build_stand_in, can_build

ROOT = Path(__file__).parents[3]

RUN = """
import json, sys
from benchmarks.stand_in import end_process, load_stand_in
load_stand_in(sys.argv[1])
import torch
from benchmarks.counted_values import OnGPU, counted_waits
from hept.metrics import average_precision_at_k, retrieval

generator = torch.Generator().manual_seed(3)
particle_id = torch.randint(0, 60, (700,), generator=generator)
x = torch.randn(60, 3, generator=generator)[particle_id] + 0.7 * torch.randn(700, 3, generator=generator)
x[:40] = x[0]  # ties beyond the candidates: these rows are computed whole
is_query = torch.rand(700, generator=generator) < 0.8
expected = average_precision_at_k(x, particle_id, is_query)
found = {"cpu": [expected.ap, expected.precision, expected.recall, expected.n_queries]}
retrieval.GPU_TILE = 128
for chunk in (400, 16):
    retrieval.GPU_CHUNK, retrieval.GPU_WHOLE = chunk, 700 * chunk
    with counted_waits() as waits:
        result = average_precision_at_k(OnGPU(x), OnGPU(particle_id), OnGPU(is_query))
    found[f"chunks of {chunk}"] = [result.ap, result.precision, result.recall, result.n_queries]
    found[f"waits of {chunk}"] = sum(waits.values())
print(json.dumps(found))
end_process()
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    if torch.cuda.is_available():
        library = ""
    elif can_build():
        library = str(build_stand_in(tmp_path_factory.mktemp("device")))
    else:
        pytest.skip("a stand-in for a GPU needs a C++ compiler")
    command = [sys.executable, "-c", textwrap.dedent(RUN), library]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def test_it_is_the_number_of_the_cpu(found):
    for chunk in (400, 16):
        assert found[f"chunks of {chunk}"] == pytest.approx(found["cpu"], abs=1e-12)


def test_the_host_does_not_wait_for_each_chunk(found):
    # 2 chunks and 33 chunks of queries.
    assert found["waits of 400"] == found["waits of 16"] <= 8
