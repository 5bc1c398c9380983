"""Checks of `make gpu-check`: what was measured, what was expected, and whether it held."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

PASS, FAIL, SKIPPED = "pass", "fail", "skipped"


@dataclass(frozen=True)
class Check:
    """One check; `reason` has why it failed or was skipped."""

    name: str
    status: str
    measured: str = ""
    expected: str = ""
    reason: str = ""


def between(name: str, value: float | None, least: float, most: float, unit: str = "") -> Check:
    """Check that a value is within a band, borders included."""
    expected = f"{least:g} to {most:g}{unit}"
    if value is None:
        return Check(name, SKIPPED, "", expected, "not measured")
    held = least <= value <= most
    return Check(name, PASS if held else FAIL, f"{value:.4g}{unit}", expected, "" if held else "outside the band")


def equal(name: str, value: object, expected: object) -> Check:
    """Check that two values are equal."""
    held = value == expected
    return Check(name, PASS if held else FAIL, str(value), str(expected), "" if held else "differs")


def skip(name: str, reason: str) -> Check:
    """Return a check that was not made."""
    return Check(name, SKIPPED, reason=reason)


def without_verdict(check: Check, reason: str) -> Check:
    """Return a check with its figure and no verdict."""
    return Check(check.name, SKIPPED, check.measured, check.expected, reason)


def render_table(checks: Sequence[Check]) -> str:
    """Return checks as a Markdown table, with a last line that counts them."""
    lines = ["| check | status | measured | expected | reason |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(cell.replace('|', '/') for cell in asdict(each).values())} |" for each in checks]
    counts = {status: sum(each.status == status for each in checks) for status in (PASS, FAIL, SKIPPED)}
    return "\n".join([*lines, "", f"{counts[PASS]} passed, {counts[FAIL]} failed, {counts[SKIPPED]} skipped"]) + "\n"


def write_checks(folder: Path, stem: str, checks: Sequence[Check]) -> None:
    """Write checks as JSON and as a table."""
    content = json.dumps([asdict(each) for each in checks], indent=1, ensure_ascii=False) + "\n"
    (folder / f"{stem}.json").write_text(content, "utf-8")
    (folder / f"{stem}.md").write_text(render_table(checks), "utf-8")


def exit_code(checks: Sequence[Check]) -> int:
    """Return 1 if a check failed, else 0."""
    return int(any(each.status == FAIL for each in checks))
