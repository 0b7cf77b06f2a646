"""A stand-in for Hugging Face: the parts of its HTTP interface that an upload of a dataset uses."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class HubStandIn:
    """Commits and large files that have arrived.

    Attributes:
        commits: Content of the repository after every commit: path to bytes.
        large: Large files by checksum, whether in a commit or not.
        received: Checksums in the order of arrival.
        room: How many large files are accepted before the server refuses; None for all.
        private: What the creation of the repository asked for.
    """

    def __init__(self) -> None:
        self.commits: list[dict[str, bytes]] = [{".gitattributes": b"* text\n"}]
        self.large: dict[str, bytes] = {}
        self.received: list[str] = []
        self.room: int | None = None
        self.private: bool | None = None
        self.lock = threading.Lock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def head(self) -> str:
        return f"{len(self.commits):040x}"

    def take(self, oid: str, content: bytes) -> bool:
        with self.lock:
            if self.room is not None and len(self.received) >= self.room:
                return False
            assert hashlib.sha256(content).hexdigest() == oid
            self.large[oid] = content
            self.received.append(oid)
            return True

    def commit(self, lines: list[dict]) -> int:
        files = dict(self.commits[-1])
        for line in lines:
            value = line["value"]
            if line["key"] == "header" and value.get("parentCommit") not in (None, self.head):
                return 412
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.large[value["oid"]]
            elif line["key"] == "deletedFile":
                del files[value["path"]]
        self.commits.append(files)
        return 200


def _handler_of(hub: HubStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") == "chunked":
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                self.rfile.readline()
                return b"".join(parts)
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))

        def answer(self, content: object, code: int = 200) -> None:
            text = json.dumps(content).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            if "/tree/" in self.path:
                files = hub.commits[-1]
                self.answer(
                    [
                        {"type": "file", "path": path, "size": len(content), "oid": "0" * 40}
                        for path, content in files.items()
                    ]
                )
            elif re.match(r"/api/datasets/[^/]+/[^/]+", self.path):
                names = [{"rfilename": name} for name in hub.commits[-1]]
                self.answer({"id": "physicist/tracks", "sha": hub.head, "siblings": names, "private": False})
            else:
                self.answer({"error": self.path}, 404)

        def do_PUT(self) -> None:
            content = self.body()
            is_taken = hub.take(self.path.rpartition("/")[2], content)
            self.answer({} if is_taken else {"error": "quota exceeded"}, 200 if is_taken else 403)

        def do_POST(self) -> None:
            body = self.body()
            if self.path == "/api/repos/create":
                hub.private = json.loads(body).get("private", json.loads(body).get("visibility") == "private")
                self.answer({"url": f"{hub.url}/datasets/physicist/tracks"})
            elif "/preupload/" in self.path:
                modes = [
                    {
                        "path": file["path"],
                        "uploadMode": "lfs" if file["path"].endswith((".parquet", ".png")) else "regular",
                        "shouldIgnore": False,
                    }
                    for file in json.loads(body)["files"]
                ]
                self.answer({"files": modes})
            elif self.path.endswith("/info/lfs/objects/batch"):
                self.answer(
                    {"transfer": "basic", "objects": [_where(o) for o in json.loads(body)["objects"]]}
                )
            elif "/commit/" in self.path:
                code = hub.commit([json.loads(line) for line in body.splitlines()])
                url = f"{hub.url}/datasets/physicist/tracks/commit/{hub.head}"
                self.answer({"commitUrl": url, "commitOid": hub.head, "success": code == 200}, code)
            else:
                # The check of the card's header.
                self.answer({"errors": [], "warnings": []})

    def _where(wanted: dict) -> dict:
        known = {"oid": wanted["oid"], "size": wanted["size"]}
        if wanted["oid"] in hub.large:
            return known
        return {**known, "actions": {"upload": {"href": f"{hub.url}/large/{wanted['oid']}"}}}

    return Handler


@pytest.fixture
def hub() -> Iterator[HubStandIn]:
    """An empty repository `physicist/tracks` on a local server."""
    stand_in = HubStandIn()
    yield stand_in
    stand_in.server.shutdown()
    stand_in.server.server_close()
