"""Report rules in a query header: section, order, findings."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

SECTION_TITLES: dict[str, str] = {
    "summary": "Summary",
    "fleet": "Fleet",
    "health": "Health of the data",
    "time": "Where the time goes",
    "when": "Timeline",
    "concurrency": "Concurrency",
    "copies": "Copies",
    "communication": "Communication",
    "kernels": "Kernels",
    "launches": "Launches and idle time",
    "host": "CPU side",
    "stacks": "Flame graphs",
    "memory": "Memory",
    "roofline": "Roofline",
    "sweeps": "Sweeps",
    "training": "Training",
    "comparison": "Comparison",
    "recordings": "Recordings",
    "rules": "Rules of the Visual Profiler",
}
"""The report's sections in their order: the name in a header, and the heading."""

PLACEHOLDER = re.compile(r"\{(?P<part>\w+)(?: of (?P<whole>\w+)| (?P<percent>%))?\}")
"""`{column}`, `{ratio %}`, `{part_ns of whole_ns}`, `{where}` in a finding's text."""

CLAUSE = re.compile(r"\[([^][]*\{[^][]*)\]")
"""A clause that the text omits where a value in it is NULL, or where `{where}` has nothing to distinguish."""

WHERE = "where"
LEAST_SHARE = 0.01
"""A finding that costs a smaller share of the run's measured time is not shown."""

TOPICS = (
    "waiting",
    "transfer",
    "receiving",
    "data",
    "host",
    "launches",
    "dependency",
    "copies",
    "clocks",
    "parallelism",
    "kernels",
)
"""What time can be lost to: waiting for other ranks in collectives that synchronize them, communication itself, waiting
in those that do not (broadcasts, reductions, sends and receives), waiting for data, a late CPU side, gaps
between kernels, work that waits for other work, copies, low clocks, kernels that leave multiprocessors free, computing
that other kernels do in less time."""
COMMUNICATION_TOPICS = frozenset({"waiting", "transfer", "receiving"})
"""Those of exposed communication."""
COPY_TOPICS = frozenset({"copies"})
COMPUTING_TOPICS = frozenset({"clocks", "parallelism", "kernels"})
"""Those of time in which devices compute."""

CHANGES_OF_A_RANK = ("on_time",)
WHAT_IF_CHANGES = {
    "on_time": "With rank {rank} on time",
    "no_data_waits": "Without waits for data",
    "ideal_network": "With transfers that take no time",
    "no_short_gaps": "Without short gaps between kernels",
    "no_copies": None,
    "scale": None,
}
"""Changes of the query what_if that a finding may name, and what is different in a replay; of None the finding has it.
Those of a rank are of that of the row."""
_BOUNDS = ("no_short_gaps", "no_copies", "scale")
"""Changes that remove more than findings are about: their gain is a bound of what a run can gain."""

_LAST = 99


@dataclass(frozen=True)
class Cost:
    """The time that the devices of a run lose to what a finding is about, as SQL over the answer's columns.

    It is a share of the measured time of the run: its windows, or, where `of` has values, their sum over all rows of
    the run. `adds` names columns: the costs of rows with the same values add up. Without a name, those of
    all rows of the run add up; with None, each row has its own cost.
    """

    ns: str
    of: str | None
    adds: tuple[str, ...] | None
    topics: tuple[str, ...]
    """What the time is lost to, of TOPICS."""
    detail: int
    """Of findings of one topic the one with the larger number has more detail: a cause more than its symptom."""
    rows: str = "true"
    """The rows that the cost is about, as SQL, without the threshold of the finding."""
    leads: bool = True
    """Whether the summary ranks the finding; others repeat what it ranks, or bound the cost by a rule of thumb."""
    ranked: bool = True
    """Whether the summary ranks the time. If not, it notes it: the cause is not recorded, or it is no loss to mend."""
    adds_to: str | None = None
    """The query whose finding is the cause: where that is ranked, this one is evidence of it and adds its time."""
    joins: bool = False
    """Whether the summary joins it with findings of its query about the same rank or by the same rule."""
    is_bound: bool = False
    """Whether the cost is an upper bound of the time that is lost."""
    opens: str | None = None
    """The query whose findings explain it: where they do, the details of the largest of them begin with it."""


@dataclass(frozen=True)
class WhatIf:
    """The parameters of the query what_if that remove a loss, `change` among them, and what is different, in words."""

    params: tuple[tuple[str, str | float], ...]
    without: str

    @property
    def is_of_a_rank(self) -> bool:
        """Return whether the change is of one rank."""
        return dict(self.params)["change"] in CHANGES_OF_A_RANK

    @property
    def is_bound(self) -> bool:
        """Return whether the change removes more than the finding is about: all work of the CPU side, not the waits."""
        return dict(self.params)["change"] in _BOUNDS


@dataclass(frozen=True)
class Finding:
    """A sentence about the rows of an answer for which `when` holds.

    `when` and `by` are SQL over the answer's columns; `advice` is what to do about it, and `next_queries` those that
    shows more. Rows with the largest share of the time at `cost` come first, then those with the most `by`. The report
    shows at most `most` rows, with `each` the first row for every value of that column, and counts all. It skips a row
    where a value outside of the clauses in `[ ]` is NULL.

    `every` replaces `text` where several rows have the finding and none is an outlier (`report.outliers`): its
    `{where}` counts the rows, and `{part of whole}` adds them up and has the range. Other values are those of the
    largest row.
    """

    when: str
    by: str
    text: str
    advice: str | None
    most: int
    each: str | None
    cost: Cost | None = None
    next_queries: tuple[str, ...] = ()
    what_if: WhatIf | None = None
    """The replay without the loss."""
    rule: str | None = None
    """Of a finding about rows within the threshold of a rule, that rule; None of the rule itself."""
    every: str | None = None
    step: str = "step"
    """The column with the step in which the loss of the row is largest, where the answer has it."""

    def within_threshold(self) -> "Finding | None":
        """Return the finding for all other rows with a cost, where the summary ranks it; else None."""
        if self.cost is None or not (self.cost.leads and self.cost.ranked):
            return None
        others = f"({self.cost.rows}) and ({self.cost.ns}) > 0 and not coalesce(({self.when}), false)"
        return replace(self, when=others, rule=self.when)

    def without_details(self) -> "Finding":
        """Return the finding without the clauses of its sentences that state where most of the time is lost."""
        text, every = (
            each and CLAUSE.sub(lambda clause: clause[0] if f"{{{WHERE}}}" in clause[0] else "", each)
            for each in (self.text, self.every)
        )
        return replace(self, text=text or self.text, every=every)

    @property
    def figures(self) -> tuple[str, ...]:
        """The columns whose values the sentence has."""
        placeholders = PLACEHOLDER.finditer(f"{self.text} {self.every or ''}")
        names = [name for each in placeholders for name in (each["part"], each["whole"]) if name not in (None, WHERE)]
        return tuple(dict.fromkeys(names))

    @property
    def required(self) -> tuple[str, ...]:
        """The columns without whose values a row yields no sentence."""
        placeholders = PLACEHOLDER.finditer(CLAUSE.sub("", f"{self.text} {self.advice or ''}"))
        names = [name for each in placeholders for name in (each["part"], each["whole"]) if name not in (None, WHERE)]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Report:
    """How the report shows an answer: in which section, where in it, and with which findings.

    It shows the answer only where one of the tables `needs` has rows (by default those that the query needs), and where
    `show_if`, SQL over the answer's columns, holds for a row; `without` is the hint where it holds for none. `ok_text`
    appears where no finding holds and each is false for some row; `unknown` where one is not even false: it is NULL.
    """

    section: str
    order: int
    needs: tuple[str, ...]
    findings: tuple[Finding, ...]
    ok_text: str | None
    unknown: str | None
    show_if: str | None
    without: str
    row: str = "row[s]"
    """What a row of the answer is, for sentences that count rows, with the ending of the plural in brackets."""
    row_key: str | None = None
    """SQL whose values identify what `row` names, where several rows are about one or some about none (NULL)."""

    def count_rows(self, number: int) -> str:
        """Return a number of rows in words: 1 GPU, 8 GPUs."""
        ending = r"\1" if number != 1 else ""
        return f"{number:,} {_ENDING.sub(ending, self.row)}"

    def share_of_rows(self, number: int, of: int) -> str:
        """Return a number of some rows in words: the only GPU, both GPUs, all 8 GPUs, 2 of 8 GPUs."""
        if number == of <= _BOTH:
            return f"{'the only' if of == 1 else 'both'} {self.count_rows(of).split(' ', 1)[1]}"
        if number == of:
            return f"all {self.count_rows(of)}"
        return f"{number:,} of {self.count_rows(of)}"


_ENDING = re.compile(r"\[(\w+)\]")
_BOTH = 2
_REQUIRED = ("when", "by", "text")
_OPTIONAL = ("advice", "every", "most", "each", "cost", "next", "what_if", "step")
_TEXTS = ("ok_text", "unknown", "show_if", "without", "row_key")


def parse_report(entry: Mapping[str, object], columns: Mapping[str, str]) -> Report:
    """Parse the table `[report]` of a header; raise ValueError with what is wrong."""
    if others := set(entry) - {"section", "order", "needs", "findings", "row", *_TEXTS}:
        raise ValueError(f"[report] has an unknown key {sorted(others)[0]!r}")
    section, order, needs = entry.get("section"), entry.get("order", _LAST), entry.get("needs", [])
    if section not in SECTION_TITLES:
        raise ValueError(f"[report] needs a section, one of {', '.join(SECTION_TITLES)}")
    expected: list[tuple[object, str, Any, str]]
    row = entry.get("row", Report.row)
    expected = [
        (order, "order", int, "an integer"),
        (row, "row", str, "text"),
        (needs, "needs", list, "a list of tables"),
    ]
    expected += [(entry.get(name), name, str | None, "text") for name in _TEXTS]
    if wrong := [
        f"{name} must be {expectation}" for value, name, kind, expectation in expected if not isinstance(value, kind)
    ]:
        raise ValueError(f"[report]: {wrong[0]}")
    ok_text, unknown, show_if, without, row_key = (cast("str | None", entry.get(name)) for name in _TEXTS)
    if (show_if is None) != (without is None):
        raise ValueError("[report] must have both show_if and without, or neither")
    if ok_text and not unknown:
        raise ValueError("[report] has ok_text without unknown; add what to write where the rules have no value")
    if unknown and not entry.get("findings"):
        raise ValueError("[report] has unknown without [[report.findings]], whose rules it is about")
    return Report(
        str(section),
        cast("int", order),
        tuple(map(str, cast("list[object]", needs))),
        tuple(_parse_finding(each, columns) for each in cast("list[object]", entry.get("findings", []))),
        ok_text,
        unknown,
        show_if,
        without or "",
        str(row),
        row_key,
    )


def _parse_finding(entry: object, columns: Mapping[str, str]) -> Finding:
    if not isinstance(entry, dict) or set(entry) - {*_REQUIRED, *_OPTIONAL}:
        raise ValueError(f"[[report.findings]] has when, by and text, and may have {', '.join(_OPTIONAL)}")
    texts = [entry.get(name) for name in _REQUIRED]
    advice, most, each = entry.get("advice"), entry.get("most", 1), entry.get("each")
    if not all(isinstance(text, str) for text in texts) or not isinstance(advice, str | None):
        raise ValueError("[[report.findings]] needs when, by and text, each as text")
    every, step = entry.get("every"), entry.get("step", Finding.step)
    for text in (str(entry["text"]), advice or "", str(every or "")):
        _check_placeholders(text, columns)
    for key, column in (("each", each), ("step", step if "step" in entry else None)):
        if column is not None and column not in columns:
            raise ValueError(f"[[report.findings]] has {key} = {column!r}, which is not a column of the query")
    when, by, text = map(str, texts)
    following = entry.get("next", ())
    next_queries = (following,) if isinstance(following, str) else tuple(map(str, following))
    what_if = _parse_what_if(entry.get("what_if"))
    cost = _parse_cost(entry.get("cost"), columns)
    if every is not None and (cost is None or cost.adds is None or each is not None):
        raise ValueError("[[report.findings]] has every, which needs a cost that adds up, and no each")
    if every is not None and not str(every).startswith(f"{{{WHERE}}}"):
        raise ValueError(f"[[report.findings]]: every must begin with {{{WHERE}}}, the number of rows")
    return Finding(when, by, text, advice, int(most), each, cost, next_queries, what_if, every=every, step=str(step))


_WHAT_IF_KEYS = frozenset({"change", "class", "kernel", "factor", "without"})


def _parse_what_if(entry: object) -> WhatIf | None:
    """Parse a change, or a table of a change with its other parameters and what is different without the loss."""
    if entry is None:
        return None
    table = {"change": entry} if isinstance(entry, str) else entry
    if not isinstance(table, dict) or set(table) - _WHAT_IF_KEYS or table.get("change") not in WHAT_IF_CHANGES:
        raise ValueError(
            f"[[report.findings]] has what_if = {entry!r}; expected a change, one of {', '.join(WHAT_IF_CHANGES)}, "
            f"or a table of {', '.join(sorted(_WHAT_IF_KEYS))}"
        )
    without = table.get("without", WHAT_IF_CHANGES[table["change"]])
    if without is None:
        raise ValueError(f"[[report.findings]]: what_if of the change {table['change']} needs without")
    return WhatIf(tuple((name, value) for name, value in table.items() if name != "without"), str(without))


_COST_KEYS = frozenset(
    {"ns", "of", "rows", "adds", "topics", "detail", "leads", "ranked", "adds_to", "joins", "bound", "opens"}
)


def _parse_cost(entry: object, columns: Mapping[str, str]) -> Cost | None:
    if entry is None:
        return None
    if not isinstance(entry, dict) or set(entry) - _COST_KEYS or "ns" not in entry:
        others = ", ".join(sorted(_COST_KEYS - {"ns"}))
        raise ValueError(f"[[report.findings]]: cost has ns, and may have {others}")
    topics = tuple(map(str, entry.get("topics", ())))
    if not topics:
        raise ValueError(f"[[report.findings]]: cost needs topics, of {', '.join(TOPICS)}")
    if unknown := [topic for topic in topics if topic not in TOPICS]:
        raise ValueError(f"[[report.findings]]: cost has the topic {unknown[0]!r}; there are {', '.join(TOPICS)}")
    adds, of = entry.get("adds", False), entry.get("of")
    names = tuple(map(str, adds)) if isinstance(adds, list) else ()
    if unknown := [name for name in names if name not in columns]:
        raise ValueError(f"[[report.findings]]: cost has adds = {unknown[0]!r}, which is not a column of the query")
    return Cost(
        ns=str(entry["ns"]),
        of=None if of is None else str(of),
        adds=names if adds else None,
        topics=topics,
        detail=int(entry.get("detail", 0)),
        rows=str(entry.get("rows", "true")),
        leads=entry.get("leads") is not False,
        ranked=entry.get("ranked") is not False,
        adds_to=None if "adds_to" not in entry else str(entry["adds_to"]),
        joins=entry.get("joins") is True,
        is_bound=entry.get("bound") is True,
        opens=None if "opens" not in entry else str(entry["opens"]),
    )


def _check_placeholders(text: str, columns: Mapping[str, str]) -> None:
    if "`{" in text:
        raise ValueError("[[report.findings]] has a value between ` `, which are for names only")
    if text.count("[") != text.count("]"):
        raise ValueError("[[report.findings]] has a [ or ] without its counterpart")
    for placeholder in PLACEHOLDER.finditer(text):
        for name in (placeholder["part"], placeholder["whole"]):
            if name is not None and name != WHERE and name not in columns:
                raise ValueError(f"[[report.findings]] names {name!r}, which is not a column of the query")
