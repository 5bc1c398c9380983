"""What a store at a URL holds, in the tests of such stores."""

from tracelab.store import remote, session

RANKS = 3
ALL = [("job", rank, 3 + rank) for rank in range(RANKS)]
"""What `count_kernels` returns for the files of the fixture `job`."""


def count_kernels(url: str) -> list[tuple[str, int, int]]:
    """Count the kernels by run and rank."""
    with session.connect(session.open_store(url), referenced="kernels sources") as con:
        return con.sql("select run, rank, count(*) from kernels group by all order by all").fetchall()


def list_keys(url: str) -> dict[str, int]:
    """Return size by key of all objects."""
    return {file.key: file.size_bytes for file in remote.BucketFiles(url).walk("")}
