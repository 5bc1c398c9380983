"""Messages of profilers are quoted where they are known, and no further than they are known."""

import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests import corpus
from tracelab.readers import tool_messages
from tracelab.readers.decompress import open_decompressed
from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.text_lines import iter_lines
from tracelab.readers.tool_messages import quote_message

TEMPLATES = tomllib.loads(Path(tool_messages.__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NVPROF_DRIVER = "nvprof is not supported on devices with compute capability"


@pytest.mark.parametrize(
    ("tool", "message", "quoted"),
    [
        ("nsys", "Launched train secret", "an unknown message of 21 characters"),
        ("nsys", "Not all CUDA events might have been collected.", "Not all CUDA events might have been collected"),
        ("nsys", "Not all secret events might have been collected.", "an unknown message of 48 characters"),
        ("nsys", "No CUDA events collected. Target: secret", "No CUDA events collected. …"),
        (
            "nsys",
            "Installed CUDA driver version (12.7) is not supported by this build of Nsight Systems. "
            "CUDA trace will be collected using libraries for driver version 12.4",
            "Installed CUDA driver version (12.7) is not supported by this build of Nsight Systems. "
            "CUDA trace will be collected using libraries for driver version 12.4",
        ),
        ("nsys", "Unable to collect CPU context switch tracesecret", "an unknown message of 48 characters"),
        ("nsys", " CPU sampling requires administrative privileges, disabling.\nsecret\n", None),
        ("nsys", "", "an unknown message of 0 characters"),
        ("ncu", "The application returned an error code (11).", "The application returned an error code (11)"),
        ("ncu", 'Failed to profile "secret" in process 7', 'Failed to profile "…" in process 7'),
        ("ncu", 'Failed to profile "secret" in process x', "an unknown message of 39 characters"),
        ("ncu", "Failed to launch ./train.py --token secret", "Failed to launch …"),
        ("ncu", "ERR_NVGPUCTRPERM - secret", "ERR_NVGPUCTRPERM …"),
        ("ncu", "Option '--section secret' did not match any section.", "Option '…' did not match any section"),
        ("nvprof", "Internal profiling error 4277:999.", "Internal profiling error 4277:999"),
        ("nvprof", f"{NVPROF_DRIVER} 8.0 and higher.", f"{NVPROF_DRIVER} 8.0 and higher"),
        ("nvbandwidth", "[CUDA_ERROR_OUT_OF_MEMORY] secret", "[CUDA_ERROR_OUT_OF_MEMORY] …"),
        ("nvbandwidth", "[CUDA_ERROR_SECRET] x", "an unknown message of 21 characters"),
    ],
)
def test_only_the_known_part_of_a_message_is_quoted(tool: str, message: str, quoted: str | None) -> None:
    assert quote_message(tool, message) == (quoted or message.strip().split("\n")[0].rstrip("."))


@pytest.mark.parametrize(("tool", "template"), [(tool, text) for tool, texts in TEMPLATES.items() for text in texts])
def test_a_secret_behind_or_within_any_known_message_is_not_quoted(tool: str, template: str) -> None:
    message = template.replace("#", "7").replace("…", "secret").replace("<", "").split("|")[0].replace(">", "")
    assert "secret" not in quote_message(tool, f"{message} secret")
    assert "secret" not in quote_message(tool, f"{message}secret")
    assert "secret" not in quote_message(tool, f"secret {message}")


def true_messages() -> Iterator[tuple[str, str]]:
    """Warnings and errors in the recorded files: the tool, and its message."""
    for path in sorted(corpus.ROOT.glob("nsys/*/*.sqlite")):
        with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
            if database.execute("select 1 from sqlite_master where name = 'DIAGNOSTIC_EVENT'").fetchone():
                yield from (
                    ("nsys", text)
                    for (text,) in database.execute("select text from DIAGNOSTIC_EVENT where severity > 1")
                )
    for path in sorted(corpus.ROOT.glob("ncu/*/*.csv")):
        with open_decompressed(path, DiagnosticCounts(), lambda _: None) as stream:
            for line in iter_lines(stream, DiagnosticCounts()):
                for mark in ("==ERROR== ", "==WARNING== "):
                    if line.startswith(mark):
                        yield "ncu", line.removeprefix(mark)


@pytest.mark.traces
def test_every_warning_and_error_in_recorded_files_is_known() -> None:
    messages = set(true_messages())
    assert len(messages) == 7
    assert [message for message in messages if "unknown" in quote_message(*message)] == []
