"""Remove from a recorded trace, or an export of nsys, whatever identifies the machine it was recorded on."""

import contextlib
import re
import sqlite3
import uuid
from pathlib import Path

HOST_NAME = re.compile(r'\n *"host_name": "[^"]*",')
TRACE_NAME = re.compile(r'"traceName": "[^"]*"')
HOST = re.compile(r'"host": ?"[^"]*"')
RUN = re.compile(r'"run": ?"[^"]*"')
COMMIT = re.compile(r'\n *"git_commit": "[^"]*",')
UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ABOVE_PACKAGES = re.compile(r'(?<=")/[^"]*/(?:site-packages|dist-packages|lib/python3\.\d+)/')


def scrub(text: str, name: str, checkout: Path) -> str:
    """Drop the host's name and the folders above packages and above this checkout; call the trace `name`."""
    text = TRACE_NAME.sub(f'"traceName": "{name}"', HOST_NAME.sub("", text))
    return ABOVE_PACKAGES.sub("", text.replace(f"{checkout}/", ""))


def replace_machine(text: str, run: str) -> str:
    """Name another host and other cards in files of a run, call it `run`, and drop the commit of the checkout."""
    for pattern, written in ((HOST, '"host": "gpu-node"'), (RUN, f'"run": "{run}"'), (COMMIT, "")):
        text = pattern.sub(written, text)
    return UUID.sub(lambda card: f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, card[0])}", text)


_KEPT_TABLES = re.compile("CUPTI_|ENUM_|NVTX_|TARGET_INFO_(GPU|CUDA|SESSION)|ANALYSIS_|PROFILER_|StringIds|PROCESSES")
_KEPT_FACTS = {
    "META_DATA_CAPTURE": re.compile("CAPTURE_EVENT_TYPE|CUDA_"),
    "META_DATA_EXPORT": re.compile("EXPORT_(PRODUCT|SCHEMA)"),
    "TARGET_INFO_SYSTEM_ENV": re.compile("Cpu(Cores|Description)|NvDriverVersion|CudaDriverVersion|OsDescription"),
}
_TEXTS = ("nameId", "textId", "jsonTextId", "shortName", "demangledName", "mangledName")


def scrub_export(path: Path) -> None:
    """Keep of an export of nsys what it says of the GPU, of NVTX and of versions, and the names that these have.

    Environment, paths, other processes and threads of the machine go, and the card's UUID is another.
    """
    with contextlib.closing(sqlite3.connect(path)) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            if table in _KEPT_FACTS:
                names = {name for (name,) in database.execute(f"SELECT name FROM {table}")}
                dropped = [(name,) for name in names if not _KEPT_FACTS[table].match(name)]
                database.executemany(f"DELETE FROM {table} WHERE name = ?", dropped)
            elif not _KEPT_TABLES.match(table):
                database.execute(f"DROP TABLE {table}")
        kept = [table for table in tables if _KEPT_TABLES.match(table)]
        _drop_unused_texts(database, kept)
        own = "SELECT globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL"
        database.execute(f"DELETE FROM PROCESSES WHERE globalPid NOT IN ({own})")
        database.execute("UPDATE PROCESSES SET name = 'python3'")
        for (card,) in database.execute("SELECT uuid FROM TARGET_INFO_GPU").fetchall():
            other = str(uuid.uuid5(uuid.NAMESPACE_OID, f"GPU-{card}"))
            database.execute("UPDATE TARGET_INFO_GPU SET uuid = ? WHERE uuid = ?", (other, card))
        database.commit()
        database.execute("VACUUM")


def _drop_unused_texts(database: sqlite3.Connection, tables: list[str]) -> None:
    used = set()
    for table in tables:
        columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
        for column in columns.intersection(_TEXTS):
            used |= {value for (value,) in database.execute(f"SELECT DISTINCT {column} FROM {table}")}
    ids = [(each,) for (each,) in database.execute("SELECT id FROM StringIds").fetchall() if each not in used]
    database.executemany("DELETE FROM StringIds WHERE id = ?", ids)
