"""What a query's header says for the report: the part it stands in, and sentences that its answers may deserve."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

PARTS: dict[str, str] = {
    "summary": "Summary",
    "health": "Health of the data",
    "time": "Where the time goes",
    "when": "Timeline",
    "concurrency": "Concurrency",
    "copies": "Copies",
    "communication": "Communication",
    "kernels": "Kernels",
    "launches": "Launches and idle time",
    "host": "The host's side",
    "memory": "Memory",
    "roofline": "Roofline",
    "sweeps": "Sweeps",
    "training": "Training",
    "comparison": "Comparison",
}
"""The parts of the report in their order, by the name that a header gives; with their headings."""

PLACEHOLDER = re.compile(r"\{(?P<part>\w+)(?: of (?P<whole>\w+)| (?P<percent>%))?\}")
"""`{column}`, `{ratio %}`, `{part_ns of whole_ns}`, `{where}` in a sentence."""

CLAUSE = re.compile(r"\[([^][]*\{[^][]*)\]")
"""A clause in a sentence that is left out where a value in it is NULL, or `{where}` has nothing to tell apart."""

WHERE = "where"
_LAST = 99


@dataclass(frozen=True)
class Say:
    """A sentence about rows of an answer: those for which `when` holds, the ones with the most `by` first.

    `when` and `by` are SQL over the answer's columns. `attempt` (`try` in the header) is what to do about it. Of the
    rows at most `most` are told, with `each` the first one for every value of that column; how many rows there are in
    all is counted. A row is passed over where a value is NULL that stands outside of the clauses in `[ ]`.
    """

    when: str
    by: str
    text: str
    attempt: str | None
    most: int
    each: str | None

    @property
    def required(self) -> tuple[str, ...]:
        """The columns without whose values nothing can be said of a row."""
        found = PLACEHOLDER.finditer(CLAUSE.sub("", f"{self.text} {self.attempt or ''}"))
        names = [name for each in found for name in (each["part"], each["whole"]) if name not in (None, WHERE)]
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class Report:
    """How an answer enters the report: in which part, at which place of it, and what is said of it.

    It enters only where one of the tables `needs` has rows (none named: of those that the query needs), and where
    `worth`, SQL over the answer's columns, holds for a row; `without` says what to do where it holds for none. `fine`
    is said where no rule holds, and each is false for some row; `unknown` where one is not even false: it is NULL.
    """

    part: str
    place: int
    needs: tuple[str, ...]
    says: tuple[Say, ...]
    fine: str | None
    unknown: str | None
    worth: str | None
    without: str


def report(entry: Mapping[str, object], columns: Mapping[str, str]) -> Report:
    """Read the table `[report]` of a header; a ValueError says what is wrong with it."""
    if others := set(entry) - {"part", "place", "needs", "says", "fine", "unknown", "worth", "without"}:
        raise ValueError(f"[report] has an unknown key {sorted(others)[0]!r}")
    part, place, needs = entry.get("part"), entry.get("place", _LAST), entry.get("needs", [])
    fine, unknown, worth, without = (entry.get(name) for name in ("fine", "unknown", "worth", "without"))
    if part not in PARTS or not isinstance(place, int):
        raise ValueError(f"[report] needs a part, one of {', '.join(PARTS)}, and may have a place (a whole number)")
    texts = (fine, unknown, worth, without)
    if not all(isinstance(each, str | None) for each in texts) or not isinstance(needs, list):
        raise ValueError("[report] may have fine, unknown, worth and without as texts, and needs as a list of tables")
    if (worth is None) != (without is None):
        raise ValueError("[report] has worth and without together, or neither")
    if (fine and not unknown) or (unknown and not entry.get("says")):
        raise ValueError(
            "[report] has fine only beside unknown, and unknown only beside sentences, whose rules they are about"
        )
    says = cast("list[object]", entry.get("says", []))
    told = tuple(_say(each, columns) for each in says)
    return Report(
        str(part),
        place,
        tuple(map(str, needs)),
        told,
        cast("str | None", fine),
        cast("str | None", unknown),
        cast("str | None", worth),
        str(without or ""),
    )


def _say(entry: object, columns: Mapping[str, str]) -> Say:
    if not isinstance(entry, dict) or set(entry) - {"when", "by", "text", "try", "most", "each"}:
        raise ValueError("[[report.says]] has when, by and text, and may have try, most and each")
    texts = [entry.get(name) for name in ("when", "by", "text")]
    attempt, most, each = entry.get("try"), entry.get("most", 1), entry.get("each")
    if not all(isinstance(text, str) for text in texts) or not isinstance(attempt, str | None):
        raise ValueError("[[report.says]] needs when, by and text, each a text")
    for text in (str(entry["text"]), attempt or ""):
        if "`{" in text or text.count("[") != text.count("]"):
            raise ValueError(
                "[[report.says]] has a text with a value between ` `, which marks names only, or a lone [ or ]"
            )
        for found in PLACEHOLDER.finditer(text):
            for name in (found["part"], found["whole"]):
                if name is not None and name != WHERE and name not in columns:
                    raise ValueError(f"[[report.says]] names {name!r}, which is no column of the query")
    if each is not None and each not in columns:
        raise ValueError(f"[[report.says]] has each = {each!r}, which is no column of the query")
    when, by, said = map(str, texts)
    return Say(when, by, said, attempt, int(most), each)
