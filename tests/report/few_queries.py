"""Reports of a few queries: those of the library take seconds together, and most tests are about one part."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tracelab.query.spec import Query
from tracelab.report import document as reports


@contextmanager
def report_only(*names: str) -> Iterator[None]:
    """Give reports the parts of these queries alone, beside the summary, the health and the timeline."""
    choose = reports._report_queries

    def choose_few(sections: Sequence[str]) -> list[Query]:
        entering = {each.name: each for each in choose(sections)}
        assert set(names) <= set(entering)
        return [entering[name] for name in entering if name in names]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reports, "_report_queries", choose_few)
        yield


def report_of(names: tuple[str, ...], store: Path, runs: tuple[str, ...] = (), **options: Any) -> str:
    """Return a report with the parts of these queries alone."""
    with report_only(*names):
        return reports.report(store, runs, **options)
