"""A packaged model: its files, loading it from the folder and from a hub, and that none of it is executed."""

import hashlib
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from hepdata.errors import InputError
from hept import load_model, package_model
from hept.evaluation.tuning import load_clustering
from hept.model.weights import ModelCard, read_card, save_weights

ROOT = Path(__file__).parents[3]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(scope="module")
def package(run_of, tmp_path_factory):
    return package_model(run_of(), tmp_path_factory.mktemp("hub") / "tracks", quick=True, threads=1)


@pytest.fixture
def hub(package):
    """The parts of a hub's HTTP interface that a download uses: its address, and what was asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def answer(self, *, with_body):
            asked.append(self.path)
            user, name, _, revision, file = self.path.strip("/").split("/")
            if (user, name, revision) != ("physicist", "tracks", "main"):
                self.send_response(404)
                self.send_header("X-Error-Code", "RepoNotFound")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            content = (package.out / file).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
            self.send_header("X-Repo-Commit", COMMIT)
            self.end_headers()
            if with_body:
                self.wfile.write(content)

        def do_HEAD(self):
            self.answer(with_body=False)

        def do_GET(self):
            self.answer(with_body=True)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", asked
    server.shutdown()
    server.server_close()


def run_python(command, endpoint, tmp_path):
    """Run Python with another hub; `huggingface_hub` reads its address as it is imported."""
    environment = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(tmp_path / "hf"),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }
    return subprocess.run(
        [sys.executable, *command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )


def test_a_folder_has_what_a_hub_expects(package):
    names = ("README.md", "clustering.json", "config.json", "inference.py", "model.onnx", "model.safetensors")
    assert package.files == names
    config = json.loads((package.out / "config.json").read_text())
    assert (config["library_name"], config["model_type"], config["output"]) == ("hept", "hept", "embedding")
    card = (package.out / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: hept\nlicense: mit\n")
    for title in ("Use", "Inputs and output", "Data", "Metrics", "Limits", "Licence", "Citation"):
        assert f"\n## {title}\n" in card
    assert "| `r` | mm | number |" in card
    assert "| ap@0.9 | 0.8125 |" in card
    assert [path.name for path in package.out.parent.iterdir()] == ["tracks"]


def test_a_folder_loads_like_its_run(package, run_of):
    found, expected = load_model(package.out), load_model(run_of())
    assert load_clustering(Path(found.source)) == load_clustering(Path(expected.source)) is not None
    assert (found.features, found.coords, found.task) == (expected.features, expected.coords, expected.task)
    for name, weights in expected.network.state_dict().items():
        assert torch.equal(found.network.state_dict()[name], weights), name


def test_a_hub_is_asked_for_the_weights_only(package, hub, tmp_path):
    endpoint, asked = hub
    code = (
        "import hept; model = hept.load_model('hf://physicist/tracks'); "
        "print(model.task, sum(w.double().sum().item() for w in model.network.state_dict().values()))"
    )
    done = run_python(["-c", code], endpoint, tmp_path)
    assert done.returncode == 0, done.stderr
    task, total = done.stdout.split()
    state = load_model(package.out).network.state_dict()
    assert (task, float(total)) == ("tracking", sum(w.double().sum().item() for w in state.values()))
    assert set(asked) == {"/physicist/tracks/resolve/main/model.safetensors"}


def test_an_unknown_model_is_one_line(hub, tmp_path):
    command = ["-m", "hept", "export", "hf://physicist/jets", "--out", "jets.onnx"]
    done = run_python(command, hub[0], tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: hf://physicist/jets: found no model.safetensors")
    assert done.stderr.count("\n") == 1


def test_code_beside_packaged_weights_is_not_imported(package, tmp_path, monkeypatch):
    config = read_card(package.out / "model.safetensors").config
    config["model"] = {**config["model"], "kind": "beside:Attention"}
    trained = load_model(package.out)
    card = ModelCard(config, "pairs", trained.features, trained.coords, dataset="0", epoch=0, metrics={})
    save_weights(tmp_path / "model.safetensors", trained.network.state_dict(), card)
    (tmp_path / "beside.py").write_text("raise SystemExit('executed')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"'beside:Attention'.*import beside"):
        load_model(tmp_path)


def test_nothing_is_overwritten(package, run_of):
    with pytest.raises(InputError, match="expected a new folder"):
        package_model(run_of(), package.out)
