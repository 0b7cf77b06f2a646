"""Input locations: paths, globs, folders and URLs; and those without any file."""

import contextlib
import dataclasses
import functools
import hashlib
import http.server
import importlib.util
import os
import shutil
import socket
import subprocess
import threading
import time

import pytest

from hepdata.errors import InputError
from hepdata.readers.delphes import survey_tree
from hepdata.readers.delphes_files import checksum, find_files, name_of, size_of
from hepdata.readers.delphes_presets import choose_branches
from hepdata.readers.delphes_stream import EventStream


@pytest.fixture
def folder(tmp_path):
    for name in ("b.root", "a.root", "c.root", "notes.txt"):
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


@pytest.fixture
def server(pileup_file):
    """The simulated file over HTTP, on this machine."""
    handler = functools.partial(_RangeHandler, directory=str(pileup_file.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}/{pileup_file.name}"
        running.shutdown()


class _RangeHandler(http.server.SimpleHTTPRequestHandler):
    """Python's own file server, and byte ranges, which ROOT files over HTTP need."""

    def do_GET(self):
        asked = self.headers.get("Range")
        if asked is None:
            return super().do_GET()
        with open(self.translate_path(self.path), "rb") as file:  # noqa: PTH123
            content = file.read()
        first, _, last = asked.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last or len(content) - 1) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        self.wfile.write(part)
        return None

    def end_headers(self):
        self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def log_message(self, *args):
        pass


def test_as_given_globs_and_folders_sorted(folder):
    b, a = str(folder / "b.root"), str(folder / "a.root")
    assert find_files([b, a]) == [b, a]
    every = [str(folder / name) for name in ("a.root", "b.root", "c.root")]
    assert find_files([str(folder / "*.root")]) == every
    assert find_files([str(folder)]) == every
    assert find_files([str(folder / "[ab].root"), str(folder / "c.root")]) == every


def test_a_folder_of_folders(folder):
    for name in ("2/b.root", "1/a.root"):
        (folder / "runs" / name).parent.mkdir(parents=True)
        (folder / "runs" / name).write_bytes(name.encode())
    assert find_files([str(folder / "runs")]) == [
        str(folder / "runs" / name) for name in ("1/a.root", "2/b.root")
    ]
    assert len(find_files([str(folder)])) == 3


def test_relative_globs(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert find_files(["?.root"]) == ["a.root", "b.root", "c.root"]


def test_file_urls_are_paths(folder):
    assert find_files([f"file://{folder}/a.root"]) == [f"{folder}/a.root"]


def test_a_name_with_brackets_or_colons_is_a_file_first(folder, pileup_file):
    odd = folder / "run[1]:x.root"
    odd.write_bytes(pileup_file.read_bytes())
    assert find_files([str(odd)]) == [str(odd)]
    assert survey_tree(str(odd)).n_events == 12


@pytest.mark.parametrize("entry", ["nothing.root", "*.xyz", "."])
def test_nothing_found(tmp_path, monkeypatch, entry):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="found no file; expected a ROOT file, a glob, a folder"):
        find_files([entry])


def test_the_same_file_twice(folder):
    (folder / "x").mkdir()
    with pytest.raises(InputError, match="found the same file twice"):
        find_files([str(folder / "a.root"), str(folder / "x" / ".." / "a.root"), str(folder)])


def test_http(server, pileup_file):
    assert find_files([server]) == [server]
    assert survey_tree(server).n_events == 12
    content = pileup_file.read_bytes()
    assert checksum(server) == (len(content), hashlib.sha256(content).hexdigest())
    assert name_of(server) == "pileup.root"
    survey = survey_tree(server)
    branches = choose_branches("auto", survey.contents, survey.classes, server)
    (far,) = EventStream(server, branches, labelled=True, step_bytes=10**8).read(2, 9)
    (near,) = EventStream(str(pileup_file), branches, labelled=True, step_bytes=10**8).read(2, 9)
    assert far.columns["pt"].tobytes() == near.columns["pt"].tobytes()


def test_http_that_does_not_answer(server):
    with pytest.raises(InputError, match=r"no such file|does not read as ROOT"):
        survey_tree(server.replace("pileup.root", "other.root"))


@pytest.mark.parametrize("path", ["pileup.root", "folder", "*.root"])
def test_a_server_that_is_not_there(path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/{path}"
    with pytest.raises(InputError, match=r"found no answer \(ClientConnectorError.*check the URL and the"):
        survey_tree(*find_files([url]))


@pytest.mark.skipif(importlib.util.find_spec("fsspec_xrootd") is not None, reason="the extra is installed")
def test_xrootd_needs_its_extra():
    with pytest.raises(InputError, match=r"pip install 'hept\[xrootd\]'"):
        find_files(["root://eospublic.cern.ch//eos/file.root"])


needs_xrootd = pytest.mark.skipif(
    importlib.util.find_spec("fsspec_xrootd") is None or shutil.which("xrootd") is None,
    reason="needs the extra [xrootd] and the xrootd server",
)


@pytest.fixture
def xrootd(pileup_file, tmp_path):
    """The URL of the simulated file's folder on a server of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    data = tmp_path / "root" / "data"
    data.mkdir(parents=True)
    shutil.copy(pileup_file, data)
    settings = {
        "xrd.port": port,
        "all.export": "/data",
        "oss.localroot": tmp_path / "root",
        "all.adminpath": tmp_path,
        "all.pidpath": tmp_path,
    }
    (tmp_path / "server.cfg").write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    # The server refuses to run as root, and its other user must reach the files.
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o777)
    command = ["xrootd", "-c", tmp_path / "server.cfg", "-l", tmp_path / "log"]
    server = subprocess.Popen(command + (["-R", "nobody"] if os.getuid() == 0 else []))
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.1)
        yield f"root://127.0.0.1:{port}//data"
    finally:
        server.terminate()
        server.wait()


@needs_xrootd
@pytest.mark.parametrize("pattern", ["", "/pileup.root", "/*.root"])
def test_xrootd_reads_the_same(xrootd, pileup_file, pattern):
    (url,) = find_files([xrootd + pattern])
    assert checksum(url) == checksum(str(pileup_file))
    assert survey_tree(url) == dataclasses.replace(survey_tree(str(pileup_file)), location=url)


@needs_xrootd
def test_xrootd_without_the_file_or_the_server(xrootd):
    with pytest.raises(InputError, match=r"found no answer .*check the URL and the network"):
        survey_tree(xrootd + "/other.root")
    with pytest.raises(InputError, match=r"found no answer .*check the URL and the network"):
        survey_tree("root://127.0.0.1:1//data/pileup.root")


def test_unknown_kind_of_url():
    with pytest.raises(InputError, match="found a URL of kind 'carrier'"):
        find_files(["carrier://pigeon/file.root"])


@pytest.mark.skipif(importlib.util.find_spec("gcsfs") is not None, reason="the package is installed")
def test_a_url_whose_package_is_missing():
    with pytest.raises(InputError, match=r"found no package for gs:// URLs.*gcsfs"):
        find_files(["gs://bucket/file.root"])


def test_memory_urls_with_globs(pileup_file):
    import fsspec

    system = fsspec.filesystem("memory")
    for name in ("two", "one"):
        system.pipe(f"/pileup/{name}.root", pileup_file.read_bytes())
    expected = ["memory:///pileup/one.root", "memory:///pileup/two.root"]
    assert [
        url.replace("memory:///", "memory://").replace("memory://", "memory:///")
        for url in find_files(["memory://pileup/*.root"])
    ] == expected
    assert len(find_files(["memory://pileup"])) == 2


def test_checksum_of_a_path(folder):
    assert checksum(str(folder / "a.root")) == (6, hashlib.sha256(b"a.root").hexdigest())


def test_a_checksum_tells_how_far_it_is(tmp_path):
    path = tmp_path / "large.root"
    path.write_bytes(bytes(10_000_000))
    parts = []
    assert checksum(str(path), parts.append)[0] == size_of(str(path)) == sum(parts) == 10_000_000
    assert len(parts) > 1
