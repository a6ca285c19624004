"""The playground as a web server for this machine only."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any

from tensorlang.play.answers import answer

PAGE = Path(__file__).with_name("page.html")
_MOST_BYTES = 200_000
_LOCAL = ("127.0.0.1", "localhost")
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:; "
    "frame-src 'self'"
)


class Handler(BaseHTTPRequestHandler):
    """`GET /` returns the page, `POST /ask` takes a question as JSON; both only for pages of this machine."""

    protocol_version = "HTTP/1.1"
    lock = Lock()

    def do_GET(self) -> None:
        """Send the page."""
        if not self._is_local():
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"for this machine alone")
        elif self.path.split("?")[0] == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", PAGE.read_bytes())
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there is only /")

    def do_POST(self) -> None:
        """Answer a question."""
        length = self.headers.get("Content-Length", "")
        is_json = self.headers.get("Content-Type", "").startswith("application/json")  # not for foreign pages
        if not self._is_local() or self.path != "/ask" or not is_json:
            self.close_connection = True
            self._send(HTTPStatus.FORBIDDEN, "text/plain", b"for this page alone")
            return
        if not length.isdecimal() or int(length) > _MOST_BYTES:
            self.close_connection = True
            self._send(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "text/plain", b"too long")
            return
        try:
            question = json.loads(self.rfile.read(int(length)))
        except (ValueError, RecursionError):
            question = None
        if not isinstance(question, dict):
            self._send(HTTPStatus.BAD_REQUEST, "text/plain", b"expected JSON")
            return
        with self.lock:
            found = answer(question)
        self._send(HTTPStatus.OK, "application/json", json.dumps(found).encode())

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""

    def _is_local(self) -> bool:
        """Whether the request's headers name this machine, as pages from elsewhere do not."""
        return self.headers.get("Host", "").rsplit(":", 1)[0] in _LOCAL

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)


def serve(port: int, started: Callable[[str], None]) -> None:
    """Serve the playground until interrupted; `started` is called with its address. Port 0 is any free port."""
    with ThreadingHTTPServer((_LOCAL[0], port), Handler) as server:
        server.daemon_threads = True
        started(f"http://{_LOCAL[0]}:{server.server_address[1]}/")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
