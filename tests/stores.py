"""Stores that several tests read, ingested once for all processes of a test run."""

import fcntl
from collections.abc import Callable
from pathlib import Path

from tests import corpus
from tracelab.ingest import pipeline
from tracelab.study import example, spec


def shared_store(folder: Path, name: str, fill: Callable[[Path], object]) -> Path:
    """Return the store `name` of the folder; the first caller fills it, the others wait. Nobody may change it."""
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / name
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not store.exists():
            part = folder / f"{name}.part"
            fill(part)
            part.rename(store)
    return store


def study_examples(folder: Path) -> Path:
    """Return the store of the example runs of all rows of the studies."""
    paths = example.example_paths(list(spec.rows().values()))
    return shared_store(folder, "studies", lambda store: pipeline.ingest(paths, store))


def kineto_corpus(folder: Path) -> Path:
    """Return the store of the first set of Kineto traces of the corpus."""
    return shared_store(folder, "kineto", lambda store: pipeline.ingest([corpus.ROOT / "kineto"], store))


def second_kineto_corpus(folder: Path) -> Path:
    """Return the store of the second set of Kineto traces of the corpus."""
    return shared_store(folder, "kineto2", lambda store: pipeline.ingest([corpus.ROOT / "kineto2"], store))


def four_ranks(folder: Path) -> Path:
    """Return the store of the generated job of four ranks."""
    job = Path(__file__).parents[1] / "data" / "generated" / "generated-4rank-ddp"
    return shared_store(folder, "four_ranks", lambda store: pipeline.ingest([job], store))


def eight_ranks(folder: Path) -> Path:
    """Return the store of the generated job of eight ranks."""
    job = Path(__file__).parents[1] / "data" / "generated" / "generated-8rank-pipeline"
    return shared_store(folder, "eight_ranks", lambda store: pipeline.ingest([job], store))


def h200(folder: Path) -> Path:
    """Return the store of the runs that were recorded on a GPU."""
    runs = Path(__file__).parents[1] / "data" / "h200"
    return shared_store(folder, "h200", lambda store: pipeline.ingest([runs], store))
