"""Who is served by `tracelab view`, and what; and the interface itself in a browser."""

import http.client
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.export.perfetto import needs_interface
from tracelab.errors import TracelabError
from tracelab.export import viewer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[viewer.Server]:
    (tmp_path / "page.html").write_text("the page")
    (tmp_path / "trace.json.gz").write_bytes(b"packed")
    (tmp_path / "secret").write_text("secret")
    what = viewer.ServedFiles({"/": tmp_path / "page.html", "/localtrace": tmp_path / "trace.json.gz"})
    with viewer.Server(what) as running:
        threading.Thread(target=running.serve_forever, args=(0.05,)).start()
        yield running
        running.shutdown()


def asked(server: viewer.Server, path: str, **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.body = answer.read()
    connection.close()
    return answer


def cookie(server: viewer.Server) -> str:
    return asked(server, f"/?word={server.served.word}").headers["Set-Cookie"].split(";")[0]


def test_it_listens_on_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def test_who_brings_the_word_gets_the_page_and_the_trace(server):
    answer = asked(server, "/", Cookie=cookie(server))
    assert (answer.status, answer.body) == (200, b"the page")
    assert asked(server, "/localtrace", Cookie=cookie(server)).body == b"packed"


@pytest.mark.parametrize("path", ["/", "/localtrace", "/?word=", "/?word=wrong", "/vizviewer_info"])
def test_nobody_else_gets_anything(server, path):
    answer = asked(server, path)
    assert (answer.status, answer.body) == (403, b"")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "evil.example:{port}", "127.0.0.1.evil.example:{port}"])
def test_a_name_of_anothers_that_points_here_is_refused(server, host):
    answer = asked(server, "/localtrace", Cookie=cookie(server), Host=host.format(port=server.port))
    assert (answer.status, answer.body) == (421, b"")


@pytest.mark.parametrize("path", ["/secret", "/../secret", "/%2e%2e/secret", "//secret", "/localtrace/../secret", "/."])
def test_no_path_leads_out_of_the_list(server, path):
    assert asked(server, path, Cookie=cookie(server)).status == 404


def test_no_page_of_anothers_may_read_frame_or_be_called(server):
    headers = asked(server, "/", Cookie=cookie(server)).headers
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "connect-src 'self' blob: data:;" in headers["Content-Security-Policy"]


def test_who_connects_and_is_silent_blocks_no_one_and_is_disconnected(server, monkeypatch):
    monkeypatch.setattr(viewer.Handler, "timeout", 0.3)
    with socket.create_connection(("127.0.0.1", server.port)) as silent, closing(half_asked(server)) as half:
        assert asked(server, "/", Cookie=cookie(server)).status == 200
        for connection in (silent, half):
            connection.settimeout(20)
            assert connection.recv(1) == b""  # the server closed it


def half_asked(server: viewer.Server) -> socket.socket:
    """Connect, and send half of a request."""
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.sendall(b"GET / HTTP/1.1\r\nHost: ")
    return connection


def test_the_time_that_a_connection_may_be_silent_is_a_minute():
    assert viewer.Handler.timeout == 60


def test_a_port_that_is_taken_is_reported(server):
    with pytest.raises(TracelabError, match="name another with --port"):
        viewer.Server(server.served, server.port)


def test_without_the_interface_a_sentence_states_how_to_get_it(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(TracelabError, match=r"run `pip install 'tracelab\[view\]'`"):
        viewer.interface_folder()


@needs_interface
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("shell", ['exec "$@"', 'trap "" INT; exec "$@"'], ids=["shell", "background"])
def test_an_interrupt_ends_it_and_leaves_nothing_behind(viewed, tmp_path, how):
    process, _ = viewed
    assert [path.name[:9] for path in (tmp_path / "scratch").iterdir()] == ["tracelab-"]
    process.send_signal(how)
    assert process.wait(30) == 0
    assert process.stderr.read() == "Stopped.\n"
    assert list((tmp_path / "scratch").iterdir()) == []
