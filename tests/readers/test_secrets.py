"""No text of environments, command lines and output of programs is written, from healthy and from damaged files."""

import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from tests import corpus
from tests.ncu import Cell, Kernel, console_text, details_csv
from tests.properties import at_most
from tests.readers import nsys_small, run_folder
from tests.readers import test_nvprof_database as nvprof_database
from tests.readers import test_nvprof_text as nvprof_text
from tests.readers.small import ingest_paths, kernel, trace
from tracelab.cli import main
from tracelab.cli.ingest import _render_report

SECRET = "hunter2" * 8
"""What is left of it after one damaged byte still has a `hunter2`."""

MARK = "hunter2"
FLIPS = at_most(50)


MESSAGES = (
    f"Launched ./train.py --token {SECRET}",
    f"Cannot read /home/{SECRET}/x: TOKEN={SECRET}.",
    f"Launched python train.py {SECRET}",
    f"Target stdout: loss {SECRET}",
    f"Launched train {SECRET}",
    f"{SECRET}",
    f"No CUDA events collected. Does the process use CUDA? {SECRET}",
)


def nsys_tables() -> dict[str, list[nsys_small.Row]]:
    strings = nsys_small.STRINGS | {6: f"HOME=/root\0TOKEN={SECRET}\0A=b", 7: f"{SECRET}\nloss 0.1\n"}
    return {
        "StringIds": [{"id": key, "value": text} for key, text in strings.items()],
        "CUPTI_ACTIVITY_KIND_KERNEL": [nsys_small.kernel(start=1000 + at, end=1010 + at) for at in range(20)],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [nsys_small.call(start=900 + at, end=950 + at) for at in range(20)],
        "NVTX_EVENTS": [nsys_small.nvtx(text=None, textId=4)] * 5,
        "TARGET_INFO_SYSTEM_ENV": [{"name": f"Token{at}", "value": SECRET} for at in range(20)],
        "META_DATA_CAPTURE": [{"name": "COMMAND_LINE", "value": f"python train.py --token {SECRET}"}],
        "ProcessStreams": [{"globalPid": nsys_small.GLOBAL_PID, "filenameId": 4, "contentId": 7}],
        "DIAGNOSTIC_EVENT": [
            {"timestamp": 1, "severity": severity, "text": text} for severity in (1, 2, 3) for text in MESSAGES
        ],
    }


def nsys_sqlite(folder: Path) -> Path:
    return nsys_small.export(folder, nsys_tables())


def nsys_parquet(folder: Path) -> Path:
    return nsys_small.folder_of(nsys_sqlite(folder / "sqlite"), folder / "in" / "report_pqtdir")


def nvprof_sqlite(folder: Path) -> Path:
    names = [{"objectKind": 1, "objectId": nvprof_database.process(), "name": 1}]
    names.append({"objectKind": 2, "objectId": nvprof_database.process(), "name": 4})
    tables = {"NAME": names, "KERNEL": [nvprof_database.KERNEL] * 20, "RUNTIME": [nvprof_database.CALL] * 20}
    texts = (f"./train.py --token {SECRET}", *nvprof_database.TEXTS[1:])
    return nvprof_database.write(folder / "in" / "run.nvprof", tables, texts)


def text_file(text: str, name: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write


COMMAND = f"./train.py --token {SECRET}"
OUTPUT = f"loss 0.5 {SECRET}\nTOKEN={SECRET}\n"
NVPROF_OUTPUT = OUTPUT + "".join(f"==77== Warning: {text}\n==77== Error: {text}\n" for text in MESSAGES)
NVPROF_TEXT = nvprof_text.GPU_TRACE.replace("./secret --token abc", COMMAND) + NVPROF_OUTPUT + nvprof_text.HELLO
NVPROF_CONSOLE = nvprof_text.SUMMARY.replace("./secret --token abc", COMMAND) + OUTPUT
_AXPY = Kernel("axpy(float*)")
_ROWS = tuple((_AXPY.numbered(at), Cell("Duration", "us", "1.5", "GPU Speed Of Light Throughput")) for at in range(5))
NCU_MESSAGES = f"==PROF== Connected to process 7 ({COMMAND})\n==ERROR== Failed to launch {COMMAND}\n{OUTPUT}" + "".join(
    f"==WARNING== {text}\n==ERROR== {text}\n" for text in MESSAGES
)
NCU_SESSION = f'Launch Settings\n"Launch Attribute","Value"\n"Profiler Command Line","ncu {COMMAND}"\n\n'
KINETO = trace(*[kernel(f"k{at}", ts=1000 + at) for at in range(10)], environment={"TOKEN": SECRET})
RUN = {
    **run_folder.RUN,
    "command": ["collect", "train", "--token", SECRET],
    "launch": {"token": SECRET},
}


def run_json(folder: Path) -> Path:
    return (
        run_folder.write(
            folder / "in", **{"run.json": RUN, "steps.rank0.jsonl": run_folder.lines("steps", run_folder.step(0))}
        )
        / "run.json"
    )


FILES: dict[str, Callable[[Path], Path]] = {
    "nsys": nsys_sqlite,
    "nsys_parquet": nsys_parquet,
    "nvprof": nvprof_sqlite,
    "nvprof_text": text_file(NVPROF_TEXT, "trace.csv"),
    "nvprof_console": text_file(NVPROF_CONSOLE, "console.txt"),
    "ncu_details": text_file(NCU_MESSAGES + NCU_SESSION + details_csv(_ROWS), "details.csv"),
    "ncu_console": text_file(NCU_MESSAGES + console_text(_ROWS) + OUTPUT, "console.txt"),
    "kineto": text_file(KINETO, "trace.json"),
    "run": run_json,
}


def written(store: Path) -> Iterator[str]:
    """Every text in every table of a store."""
    for path in sorted(store.rglob("*.parquet")):
        table = pq.ParquetFile(path).read(use_threads=False)
        for column in table.columns:
            if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
                yield from (str(value) for value in column.to_pylist() if value is not None)


def everything_written(folder: Path, path: Path) -> str:
    """Ingest the file; return the texts in the store and the lines of ingest."""
    lab = ingest_paths(folder, [path])
    lines = [line for problems in (False, True) for line in _render_report(lab.report, problems_only=problems)]
    return "\n".join({*written(lab.store), *lines})


def leaks(folder: Path, path: Path) -> list[str]:
    """Ingest the file; return the lines that hold the secret."""
    return [line for line in everything_written(folder, path).split("\n") if MARK in line]


def flip(content: bytes, rng: random.Random, secret: bytes = MARK.encode()) -> bytes:
    """Flip a bit within a secret, or shortly before or behind one."""
    places = [match.start() for match in re.finditer(re.escape(secret), content)]
    at = min(max(rng.choice(places) + rng.randrange(-60, 60), 0), len(content) - 1)
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


@pytest.mark.parametrize("name", FILES)
def test_healthy_files_leak_nothing(tmp_path: Path, name: str) -> None:
    path = FILES[name](tmp_path)
    assert leaks(tmp_path, path) == []
    assert list((tmp_path / "lab").glob("sources/*/*.parquet"))


def test_doctor_and_report_leak_nothing(tmp_path: Path) -> None:
    """Both read only the store; these two formats have texts of users in most of their tables."""
    for name in ("nsys", "ncu_details"):
        ingest_paths(tmp_path, [FILES[name](tmp_path / name)])
    store = str(tmp_path / "lab")
    assert len(list((tmp_path / "lab").glob("sources/*/*.parquet"))) == 2
    text = CliRunner().invoke(main, ["doctor", "--store", store]).output
    CliRunner().invoke(main, ["report", "--store", store, "-o", str(tmp_path / "report.html")])
    assert MARK not in text + (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [name for name in FILES if name != "nsys_parquet"])
def test_damaged_files_leak_nothing(tmp_path: Path, name: str) -> None:
    path = FILES[name](tmp_path)
    content, rng = path.read_bytes(), random.Random(name)
    for attempt in range(FLIPS):
        folder = tmp_path / str(attempt)
        damaged = folder / "in" / path.name
        damaged.parent.mkdir(parents=True)
        damaged.write_bytes(flip(content, rng))
        assert leaks(folder, damaged) == [], attempt


TRUE_EXPORTS = [
    path for path in sorted(corpus.ROOT.glob("nsys/*/*.sqlite")) if path.stat().st_size < 3_000_000
] + sorted(corpus.ROOT.glob("hostile/*.sqlite"))


def secrets_of(path: Path) -> set[str]:
    """The environments, command lines and outputs in an export, in the pieces that a message could quote."""
    con = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    con.text_factory = lambda text: text.decode(errors="replace")
    tables = {name for (name,) in con.execute("select name from sqlite_master where type = 'table'")}
    texts = [text for (text,) in con.execute("select value from StringIds") if text and "\0" in text]
    if "TARGET_INFO_SYSTEM_ENV" in tables:
        texts += [text for (text,) in con.execute("select value from TARGET_INFO_SYSTEM_ENV") if text]
    if "META_DATA_CAPTURE" in tables:
        texts += [text for (text,) in con.execute("select value from META_DATA_CAPTURE") if text]
    if "ProcessStreams" in tables:
        texts += [
            text
            for (text,) in con.execute("select value from ProcessStreams join StringIds on id = contentId")
            if text and "\n" in text
        ]
    pieces = {piece for text in texts for piece in text.replace("\n", "\0").split("\0") if len(piece) > 24}
    gpus = {gpu for (gpu,) in con.execute("select name from TARGET_INFO_GPU")} if "TARGET_INFO_GPU" in tables else set()
    con.close()
    return {piece for piece in pieces if piece not in gpus}


@pytest.mark.traces
@pytest.mark.parametrize("path", TRUE_EXPORTS, ids=lambda path: path.parent.name + "-" + path.stem)
def test_true_exports_leak_nothing_healthy_or_damaged(tmp_path: Path, path: Path) -> None:
    secrets = secrets_of(path)
    content, rng = path.read_bytes(), random.Random(path.name)
    texts = everything_written(tmp_path, path)
    assert [secret for secret in secrets if secret in texts] == []
    if not secrets:
        return
    damaged = tmp_path / "damaged" / "in" / path.name
    damaged.parent.mkdir(parents=True)
    damaged.write_bytes(
        flip(content, rng, rng.choice(sorted(each for each in secrets if each.encode() in content)).encode())
    )
    pieces = {piece for secret in secrets for piece in (secret[:24], secret[-24:]) if piece not in texts}
    texts = everything_written(tmp_path / "damaged", damaged)
    assert [piece for piece in pieces if piece in texts] == []
