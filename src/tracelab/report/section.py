"""A section of the report: HTML that is escaped already, JSON blocks for scripts, and the names of those scripts."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Section:
    """One section: its heading links to `anchor`; `data` are JSON blocks by name, `scripts` files of assets.

    `lacking` are lines (HTML) about what the store cannot answer: they stand together at the end of the report.
    """

    anchor: str
    title: str
    body: str
    data: Mapping[str, object] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
