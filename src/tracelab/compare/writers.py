"""Write a comparison as text, as a comment for a pull request, as JUnit's XML, and as JSON."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any
from xml.etree import ElementTree

from rich.cells import cell_len

from tracelab.compare import sentences
from tracelab.compare.comparability import FactRow
from tracelab.compare.comparison import Comparison
from tracelab.compare.gates import FAILED, UNDECIDED
from tracelab.compare.metrics import is_memory, spell_verdict
from tracelab.compare.recordings import StepCounts
from tracelab.compare.verdicts import MetricRow
from tracelab.exact_json import json_text
from tracelab.foreign_text import escape_controls
from tracelab.output.labels import shorten
from tracelab.output.writers import escape_markdown

JSON_FORMAT = "comparison/1"
KERNEL_LISTS = ("matches", "stages", "unmatched", "replacements")
"""What the JSON lists of the matched kernels."""
LISTS = ("base", "candidate", "noise_runs", "metrics", "ranks", "gates", "warnings", "notes")
"""The lists of the JSON that are empty where a comparison is refused."""
_CODE = re.compile(r"(`(?:tracelab [a-z ]+|--[a-z-]+)`)")
_GAP = "  "
_NARROWEST = 40
_GLUE = "\N{NO-BREAK SPACE}"
_UNIT = re.compile(r"(?<=\d) (?=%|[nµm]?s\b|[kMGT]?B\b)")
"""The space between a number and its unit, where no line ends."""
_LONGEST_NAME = 300
"""Characters of a metric in a comment; demangled names of kernels may have thousands."""
_GUIDE = "Verdicts hold for all metrics together: the chance of any false alarm among them is at most 5 %."
_PARENTHESES = "In parentheses: what blocks of steps show of these recordings alone."


def write_text(comparison: Comparison, *, width: int, everything: bool = False, most: int | None = None) -> str:
    """Return the comparison for a terminal of a width: verdict, tables, and what it rests on."""
    opening = [
        f"{comparison.verdict.capitalize()}: {sentences.verdict_sentence(comparison)}",
        *opening_lines(comparison),
    ]
    lines = [*_wrap(opening, width), "", *_text_table(sentences.headline_rows(comparison), width)]
    for details in sentences.list_details(comparison, everything=everything, most=most):
        lines += ["", details.title, *_text_table(details.rows, width)]
    closing = closing_lines(comparison, everything=everything, most=most)
    lines += ["", *_wrap([f"- {line}" for line in closing], width)]
    return "\n".join(map(escape_controls, lines)) + "\n"


def _wrap(lines: Sequence[str], width: int) -> Iterator[str]:
    for line in lines:
        indent = "  " if line.startswith("- ") else ""
        glued = _UNIT.sub(_GLUE, escape_controls(line))
        wrapped = textwrap.wrap(glued, max(width, _NARROWEST), subsequent_indent=indent, break_on_hyphens=False)
        yield from (part.replace(_GLUE, " ") for part in wrapped)


def write_markdown(comparison: Comparison, *, everything: bool = False, most: int | None = None) -> str:
    """Return the comparison as a comment for a pull request: the verdict first, details folded."""
    runs = [_list_runs(each) for each in (comparison.request.base, comparison.request.candidate)]
    lines = [f"**{comparison.verdict.capitalize()}:** {escape_sentence(sentences.verdict_sentence(comparison))}"]
    lines += (
        ["", *(f"{escape_sentence(line)}  " for line in opening_lines(comparison))] if opening_lines(comparison) else []
    )
    lines += ["", *_markdown_table(sentences.headline_rows(comparison))]
    for details in sentences.list_details(comparison, everything=everything, most=most):
        table = _markdown_table(details.rows, are_names_whole=details.is_long)
        folded = ["", f"<details><summary>{details.title}</summary>", "", *table, "", "</details>"]
        lines += folded if details.is_long else ["", details.title, "", *table]
    closing = closing_lines(comparison, everything=everything, most=most)
    lines += ["", *(f"- {escape_sentence(line)}" for line in closing)]
    lines += [
        "",
        f"<sub>tracelab compare: base {escape_sentence(runs[0])}; candidate {escape_sentence(runs[1])}.</sub>",
    ]
    return "\n".join(lines) + "\n"


def write_junit(comparison: Comparison, *, strict: bool) -> str:
    """Return the comparison as JUnit's XML: one test case for each gate and for each metric of the step.

    A failed gate is a failure, an undecided one is skipped, with `strict` an error. Metrics without a gate always pass.
    """
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", name="tracelab compare")
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for result in comparison.gates:
        case = _junit_case(suite, "gate", str(result.gate), result.row)
        counts["tests"] += 1
        message = escape_controls(sentences.gate_sentence(result))
        if result.verdict == FAILED:
            ElementTree.SubElement(case, "failure", message=message, type="regression").text = message
            counts["failures"] += 1
        elif result.verdict == UNDECIDED and strict:
            ElementTree.SubElement(case, "error", message=message, type="undecided").text = message
            counts["errors"] += 1
        elif result.verdict == UNDECIDED:
            ElementTree.SubElement(case, "skipped", message=message)
            counts["skipped"] += 1
    for row in comparison.rows:
        if row.family == "headline":
            case = _junit_case(suite, "metric", row.metric, row)
            counts["tests"] += 1
    for name, count in counts.items():
        suite.set(name, str(count))
        suites.set(name, str(count))
    for element in suite.iter("testcase"):
        element[:] = sorted(element, key=lambda child: child.tag == "system-out")
    ElementTree.indent(suites)
    text: str = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _junit_case(suite: ElementTree.Element, kind: str, name: str, row: MetricRow | None) -> ElementTree.Element:
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"tracelab.compare.{kind}", name=escape_controls(name), time="0"
    )
    if row is not None:
        cells = zip(sentences.HEADINGS, sentences.table_cells(row), strict=True)
        text = ", ".join(f"{heading} {cell}" for heading, cell in cells if cell)
        ElementTree.SubElement(case, "system-out").text = escape_controls(text)
    return case


def list_facts(facts: Sequence[FactRow]) -> list[dict[str, object]]:
    """Return the facts of both sides as JSON has them."""
    return [
        {
            "fact": row.fact,
            "verdict": row.verdict,
            "base": row.base,
            "candidate": row.candidate,
            "allowed": row.allowed,
        }
        for row in facts
    ]


def write_json(comparison: Comparison, *, strict: bool) -> str:
    """Return the comparison as JSON, whose format the guide on comparing describes."""
    request = comparison.request
    content = {
        "tracelab": JSON_FORMAT,
        "verdict": comparison.verdict,
        "exit_code": comparison.exit_code(strict=strict),
        "summary": sentences.verdict_sentence(comparison),
        "unit": comparison.unit,
        "base": _describe_side(request.base, comparison.steps[0]),
        "candidate": _describe_side(request.candidate, comparison.steps[1]),
        "noise_runs": list(request.noise),
        "metrics": [metric_values(row) for row in comparison.rows],
        "ranks": [
            {
                "metric": each.metric,
                "rank": each.rank,
                **_in_unit(each.metric, base=each.base, candidate=each.candidate, others_difference=each.others),
            }
            for each in comparison.rank_differences
        ],
        "fullest_ranks": list(comparison.fullest_ranks),
        "gates": [
            {
                "metric": result.gate.metric,
                "percent": result.gate.percent,
                "verdict": result.verdict,
                "message": sentences.gate_sentence(result),
            }
            for result in comparison.gates
        ],
        "comparability": list_facts(comparison.facts),
        "kernels": {
            "matches": [
                {"stage": each.stage, "base": list(each.base), "candidate": list(each.candidate)}
                for each in comparison.matching.matches
            ],
            "stages": [
                {"stage": stage, "base_ratio": base, "candidate_ratio": candidate}
                for stage, (base, candidate) in comparison.matching.shares.items()
            ],
            "unmatched": [
                {"class": each.cls, "base_ns": round(each.base_ns), "candidate_ns": round(each.candidate_ns)}
                for each in comparison.unmatched
            ],
            "replacements": [
                {
                    "base": [kernel.name for kernel in each.went],
                    "candidate": [kernel.name for kernel in each.came],
                    "base_difference_ns": round(each.went_ns),
                    "candidate_difference_ns": round(each.came_ns),
                }
                for each in comparison.replacements
            ],
        },
        "warnings": list(comparison.warnings),
        "notes": list(comparison.notes),
    }
    return json_text(content) + "\n"


def _describe_side(runs: Sequence[str], steps: Sequence[StepCounts]) -> list[dict[str, Any]]:
    return [
        {"run": run, "steps": each.counted, "marked_steps": each.marked, "left_out": dict(each.left_out)}
        for run, each in zip(runs, steps, strict=True)
    ]


def _in_unit(metric: str, **values: float) -> dict[str, int | None]:
    """Return values of a metric by name with the unit: those of the other unit are None."""
    unit = "bytes" if is_memory(metric) else "ns"
    return {
        f"{name}_{each}": round(value) if each == unit else None
        for each in ("ns", "bytes")
        for name, value in values.items()
    }


def metric_values(row: MetricRow) -> dict[str, Any]:
    """Return the values of a metric by column: times in whole ns, memory in bytes, changes as ratios."""
    unit = "bytes" if is_memory(row.metric) else "ns"
    values: dict[str, Any] = {
        "metric": row.metric,
        "family": row.family,
        "verdict": spell_verdict(row.metric, row.verdict),
        "tendency": None if row.tendency is None else spell_verdict(row.metric, row.tendency),
        "change_ratio": row.effect,
        "change_low_ratio": row.low,
        "change_high_ratio": row.high,
    }
    for each in ("ns", "bytes"):
        for name, value in (
            ("base", row.base),
            ("candidate", row.candidate),
            ("difference", row.difference),
            ("difference_low", row.difference_low),
            ("difference_high", row.difference_high),
        ):
            values[f"{name}_{each}"] = round(value) if each == unit and value is not None else None
    return values | {
        "of_step_ratio": row.step_share,
        "floor_ratio": row.floor,
        "floor_source": "measured" if row.floor_measured else "assumed",
        "evidence": row.evidence,
        "p_value": row.p_value,
    }


def opening_lines(comparison: Comparison) -> list[str]:
    """Return sentences that follow the verdict: what few recordings show, large differences, gates, warnings."""
    optional = (
        sentences.tendency_sentence(comparison),
        sentences.explanation(comparison),
        sentences.rank_sentence(comparison),
    )
    gates = [sentences.gate_sentence(each) for each in comparison.gates]
    return [*(line for line in optional if line), *gates, *comparison.warnings]


def closing_lines(comparison: Comparison, *, everything: bool = False, most: int | None = None) -> list[str]:
    """Return sentences on what differs, what the values are, the noise floor, and the matching of kernels."""
    lines = []
    if differences := sentences.difference_sentences(comparison):
        lines.append(f"The sides differ in: {'; '.join(differences)}.")
    if mixed := sentences.mixed_sentences(comparison):
        lines.append(f"Recordings within a side differ in: {'; '.join(mixed)}.")
    lines.append(sentences.step_unit(comparison))
    if left_out := sentences.left_out_sentence(comparison):
        lines.append(left_out)
    details = sentences.list_details(comparison, everything=everything, most=most)
    listed = [*sentences.headline_rows(comparison), *(row for each in details for row in each.rows)]
    if any(row.tendency not in (None, UNDECIDED) for row in listed):
        lines.append(_PARENTHESES)
    elif comparison.main.evidence == "recordings":
        lines.append(_GUIDE)
    if fullest := sentences.fullest_sentence(comparison):
        lines.append(fullest)
    lines.append(sentences.floor_sentence(comparison))
    lines += sentences.matching_sentences(comparison)
    if unknown := sentences.unknown_facts(comparison):
        lines.append(f"Only one side records: {', '.join(unknown)}.")
    lines += comparison.notes
    cut = sentences.count_cut_details(comparison, everything=everything, most=most)
    listing = "--all lists them" if most is None else "--all without --limit lists them"
    if not everything:
        others = f", and {cut:,} others with smaller changes than those listed" if cut else ""
        lines.append(f"Details that change by less than 1 % of the step are left out{others}; {listing}.")
    elif cut:
        lines.append(f"{cut:,} details with smaller changes than those listed are left out; {listing}.")
    return lines


def _text_table(rows: Sequence[MetricRow], width: int) -> Iterator[str]:
    table = [list(sentences.HEADINGS), *map(sentences.table_cells, rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(sentences.HEADINGS))]
    surplus = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    if surplus > 0:
        widths[0] = max(_NARROWEST // 2, widths[0] - surplus)
        table = [[shorten(name, widths[0]), *cells] for name, *cells in table]
    for number, row in enumerate(table):
        cells = [
            cell + " " * (width - cell_len(cell))
            if column in (0, len(row) - 1)
            else " " * (width - cell_len(cell)) + cell
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield _GAP.join(cells).rstrip()
        if number == 0:
            yield _GAP.join("─" * width for width in widths)


def _markdown_table(rows: Sequence[MetricRow], *, are_names_whole: bool = False) -> list[str]:
    lines = ["| " + " | ".join(sentences.HEADINGS) + " |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        metric, *cells, verdict = sentences.table_cells(row, is_name_whole=are_names_whole)
        metric = shorten(metric, _LONGEST_NAME)
        bold = f"**{verdict}**" if row.verdict in ("slower", "faster") else verdict
        lines.append("| " + " | ".join([escape_sentence(metric), *map(escape_sentence, cells), bold]) + " |")
    return lines


def escape_sentence(text: str) -> str:
    """Escape a text for Markdown; only commands and options of tracelab in backquotes stay code.

    A `>` that does not begin the text stays readable, too: it closes no tag where each `<` is escaped.
    """
    parts = _CODE.split(escape_controls(text))
    escaped = "".join(part if at % 2 else escape_markdown(part, inside_words=False) for at, part in enumerate(parts))
    return escaped[:4] + escaped[4:].replace("&gt;", ">")


def _list_runs(runs: Sequence[str]) -> str:
    return runs[0] if len(runs) == 1 else f"{len(runs)} runs, {runs[0]} to {runs[-1]}"
