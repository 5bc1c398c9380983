"""A comparison in Python: its rows as data frames, its verdict, and a page of HTML for a notebook."""

import shutil
from html import escape

import pyarrow as pa

from tracelab.compare import sentences, writers
from tracelab.compare.comparison import Comparison
from tracelab.foreign_text import escape_lines
from tracelab.output.result import Result

_TYPES = {
    **dict.fromkeys(("metric", "family", "verdict", "tendency", "floor_source", "evidence"), pa.string()),
    **dict.fromkeys(
        ("change_ratio", "change_low_ratio", "change_high_ratio", "of_step_ratio", "floor_ratio"), pa.float64()
    ),
    "p_value": pa.float64(),
}


class ComparisonResult(Result):
    """The rows of a comparison, one a metric, with `.verdict`, `.gates`, `.exit_code` and `.markdown()`."""

    def __init__(self, comparison: Comparison, *, strict: bool = False) -> None:
        rows = [writers.metric_values(row) for row in comparison.rows]
        fields = [pa.field(name, _TYPES.get(name, pa.int64())) for name in rows[0]]
        super().__init__(pa.Table.from_pylist(rows, schema=pa.schema(fields)), sentences.verdict_sentence(comparison))
        self.comparison = comparison
        self.exit_code = comparison.exit_code(strict=strict)
        """The exit code of `tracelab compare`: 1 if a gate fails, 4 if one is undecided and `strict`, else 0."""

    @property
    def verdict(self) -> str:
        """faster, slower, same or undecided: that of the step time."""
        return self.comparison.verdict

    @property
    def summary(self) -> str:
        """The verdict in one sentence."""
        return sentences.verdict_sentence(self.comparison)

    @property
    def gates(self) -> dict[str, str]:
        """Return passed, failed or undecided for each gate."""
        return {str(each.gate): each.verdict for each in self.comparison.gates}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences to know before the figures."""
        return self.comparison.warnings

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what limits the comparison."""
        return self.comparison.notes

    def markdown(self, *, everything: bool = False) -> str:
        """Return the comparison as a comment for a pull request."""
        return writers.write_markdown(self.comparison, everything=everything)

    def __repr__(self) -> str:
        return writers.write_text(self.comparison, width=shutil.get_terminal_size((120, 24)).columns).rstrip()

    def _repr_html_(self) -> str:
        from tracelab.output.html import table_html

        groups = [("", sentences.headline_rows(self.comparison))]
        groups += [(each.title, list(each.rows)) for each in sentences.list_details(self.comparison)]
        parts = [f"<p><b>{escape(self.verdict.capitalize())}:</b> {escape(escape_lines(self.summary))}</p>"]
        parts += [f"<p>{escape(escape_lines(line))}</p>" for line in writers.opening_lines(self.comparison)]
        for title, rows in groups:
            cells = zip(*(sentences.table_cells(row) for row in rows), strict=True)
            table = pa.table({name: list(column) for name, column in zip(sentences.HEADINGS, cells, strict=True)})
            parts.append(table_html(table, title))
        items = "".join(f"<li>{escape(escape_lines(line))}</li>" for line in writers.closing_lines(self.comparison))
        return "\n".join([*parts, f"<ul>{items}</ul>"])
