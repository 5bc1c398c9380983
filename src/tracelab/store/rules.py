"""Rules that CSV files list, rendered as SQL: classes of kernels, roles of process groups, and formulas for ops."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from itertools import groupby
from pathlib import Path

import duckdb

from tracelab.errors import StoreError
from tracelab.resources import QUERIES

SHIPPED = QUERIES / "classes.csv"
SHIPPED_ROLES = QUERIES / "group_roles.csv"
SHIPPED_FORMULAS = QUERIES / "op_formulas.csv"
COLLECTIVES = frozenset(
    ["broadcast", "all_reduce", "all_gather", "reduce_scatter", "reduce", "all_to_all", "send_recv", "other", "unknown"]
)
SEQUENCE_LENGTH = 4
"""Rules from which on one test for all of them costs less than a test for each."""


@dataclass(frozen=True)
class Rule:
    """One line of classes.csv: a kernel whose name contains a match of `pattern` (RE2) has the class `kernel_class`."""

    pattern: str
    kernel_class: str
    collective: str | None
    note: str | None


@dataclass(frozen=True)
class RoleRule:
    """One line of group_roles.csv: a process group whose description contains a match of `pattern` (RE2) has `role`."""

    pattern: str
    role: str


def load_rules(store: Path) -> tuple[Rule, ...]:
    """Return all rules in the order in which they apply: those of `<store>/classes.csv` first."""
    own = store / SHIPPED.name
    return (*(_read_rules(own) if own.is_file() else ()), *_shipped_rules())


@cache
def _shipped_rules() -> tuple[Rule, ...]:
    return _read_rules(SHIPPED)


def render_rules(listed: tuple[Rule, ...]) -> str:
    """Render the view `kernel_rules` and the macro `kernel_rule`, which returns the number of the first matching rule.

    The patterns are constants in one `case`: DuckDB compiles a constant pattern once, and one from a column per row.
    """
    cases = "\n  ".join(_render_cases(listed))
    values = ",\n  ".join(
        f"({number}, {', '.join(map(_sql_literal, (rule.kernel_class, rule.collective, rule.pattern, rule.note)))})"
        for number, rule in enumerate(listed, 1)
    )
    return (
        f"create or replace macro kernel_rule(name) as case\n  {cases}\nend;\n\n"
        "create or replace view kernel_rules as\n"
        f"from (values\n  {values}\n) as rules(rule, class, collective, pattern, note);\n"
        "comment on view kernel_rules is 'one rule of the kernel classifier; the first match decides';"
    )


def _render_cases(listed: tuple[Rule, ...]) -> Iterator[str]:
    """Render the branches of `kernel_rule`, one for each rule or each sequence of shipped rules with the same class.

    A sequence starts with one test for all of its patterns: kernels that do not communicate skip those rules at once.
    A user's rules stay alone, because patterns that are valid alone may be invalid together (named groups, `\\Q`).
    """
    shipped = frozenset(_shipped_rules())
    numbered = enumerate(listed, 1)
    for (_, is_shipped), sequence in groupby(numbered, key=lambda item: (item[1].kernel_class, item[1] in shipped)):
        patterns = {number: rule.pattern for number, rule in sequence}
        branches = [f"when {_render_match(pattern)} then {number}" for number, pattern in patterns.items()]
        if is_shipped and len(branches) >= SEQUENCE_LENGTH:
            union = "|".join(f"(?:{pattern})" for pattern in patterns.values())
            yield f"when {_render_match(union)} then case {' '.join(branches)} end"
        else:
            yield from branches


def _render_match(pattern: str) -> str:
    return f"regexp_matches(name, {_sql_literal(pattern)})"


def load_role_rules(store: Path) -> tuple[RoleRule, ...]:
    """Return the rules for process groups in their order: those of `<store>/group_roles.csv` first."""
    own = store / SHIPPED_ROLES.name
    return (*(_read_role_rules(own) if own.is_file() else ()), *_shipped_role_rules())


@cache
def _shipped_role_rules() -> tuple[RoleRule, ...]:
    return _read_role_rules(SHIPPED_ROLES)


def render_role_rules(listed: tuple[RoleRule, ...]) -> str:
    """Render the macro `group_role`, which returns the role of the first rule that a description matches, or NULL."""
    cases = "\n  ".join(
        f"when regexp_matches(description, {_sql_literal(rule.pattern)}) then {_sql_literal(rule.role)}"
        for rule in listed
    )
    return f"create or replace macro group_role(description) as case\n  {cases}\nend;"


@dataclass(frozen=True)
class Formula:
    """One line of op_formulas.csv: ops whose whole name matches `pattern` (RE2) have its FLOPs and bytes.

    `flop` and `least_bytes` are SQL over lists with an item for each argument of an op: `s` are sizes, `n` elements,
    `z` bytes of an element, and `c` the values of those that are no tensors, as text. A line without the name of a
    formula states in `note` why such ops can have none.
    """

    formula: str
    kind: str
    pattern: str
    flop: str
    least_bytes: str
    note: str

    @property
    def reads_values(self) -> bool:
        """Return whether the formula needs values of arguments, which take time to read."""
        return re.search(r"\bc\b", f"{self.flop} {self.least_bytes}") is not None


@cache
def load_formulas() -> tuple[Formula, ...]:
    """Return all formulas in the order in which they apply."""
    with SHIPPED_FORMULAS.open(encoding="utf-8", newline="") as lines:
        return tuple(
            Formula(**{each.name: row[each.name] for each in fields(Formula)}) for row in csv.DictReader(lines)
        )


@cache
def render_formulas() -> str:
    """Render the view `op_formulas`, and the macros that find an op's formula and compute its FLOPs and bytes.

    Patterns and expressions are constants in one `case` each: DuckDB compiles a constant pattern once.
    """
    named = [each for each in load_formulas() if each.formula]
    numbered = [(number, _sql_literal(each.pattern), each) for number, each in enumerate(named, 1)]
    reasons = "\n  ".join(
        f"when regexp_full_match(name, {_sql_literal(each.pattern)}) then {_sql_literal(each.note)}"
        for each in load_formulas()
        if not each.formula
    )
    names = "\n  ".join(f"when regexp_full_match(name, {pattern}) then {number}" for number, pattern, _ in numbered)
    flop = "\n  ".join(f"when {number} then ({each.flop})::hugeint" for number, _, each in numbered)
    least_bytes = "\n  ".join(f"when {number} then ({each.least_bytes})::hugeint" for number, _, each in numbered)
    values = ",\n  ".join(
        f"({number}, {_sql_literal(each.formula)}, {_sql_literal(each.kind)}, {pattern}, {each.reads_values}, "
        f"{each.flop != 'null'}, {_sql_literal(each.note or None)})"
        for number, pattern, each in numbered
    )
    return (
        f"create or replace macro op_formula(name) as case\n  {names}\nend;\n\n"
        f"create or replace macro reason_without_formula(name) as case\n  {reasons}\n"
        "  else 'no formula has its name'\nend;\n\n"
        f"create or replace macro formula_flop(rule, s, n, z, c, r) as try(case rule\n  {flop}\nend);\n\n"
        f"create or replace macro formula_bytes(rule, s, n, z, c, r) as try(case rule\n  {least_bytes}\nend);\n\n"
        "create or replace view op_formulas as\n"
        f"from (values\n  {values}\n) as formulas(rule, formula, kind, pattern, reads_values, counts_flop, note);\n"
        "comment on view op_formulas is 'one formula of FLOPs and bytes; the first that fits an op''s name counts';"
    )


def _read_rules(path: Path) -> tuple[Rule, ...]:
    return tuple(
        _parse_rule(path, line, row) for line, row in _read_rows(path, ("pattern", "class"), "collective,note")
    )


def _read_role_rules(path: Path) -> tuple[RoleRule, ...]:
    return tuple(_parse_role_rule(path, line, row) for line, row in _read_rows(path, ("pattern", "role"), "note"))


def _read_rows(path: Path, needed: tuple[str, str], optional: str) -> list[tuple[int, dict[str, str]]]:
    """Return the lines of a CSV file of rules, each with its number."""
    try:
        lines = io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")
        reader = csv.DictReader(lines)
        if not set(needed) <= set(reader.fieldnames or ()):
            raise StoreError(
                f"{path}:1: the columns must be {','.join(needed)},{optional} ({optional} may be left out)"
            )
        return [(reader.line_num, row) for row in reader]
    except UnicodeDecodeError as error:
        raise StoreError(f"{path}: not valid UTF-8 at byte {error.start}; re-save as UTF-8") from error
    except (OSError, csv.Error) as error:
        raise StoreError(f"{path}: not readable as CSV: {error}") from error


def _parse_role_rule(path: Path, line: int, row: dict[str, str]) -> RoleRule:
    pattern, role = (row["pattern"] or "").strip(), (row["role"] or "").strip()
    if not pattern or not role:
        raise StoreError(f"{path}:{line}: a rule needs a pattern and a role")
    if path != SHIPPED_ROLES:
        _check_pattern(path, line, pattern)
    return RoleRule(pattern, role)


def _check_pattern(path: Path, line: int, pattern: str) -> None:
    try:
        duckdb.execute("select regexp_matches('', ?)", [pattern]).fetchall()
    except duckdb.Error as error:
        raise StoreError(
            f"{path}:{line}: {pattern!r} is not a valid regular expression (RE2 syntax): {error}"
        ) from error


def _parse_rule(path: Path, line: int, row: dict[str, str]) -> Rule:
    pattern, kernel_class = (row["pattern"] or "").strip(), (row["class"] or "").strip()
    if not pattern or not kernel_class:
        raise StoreError(f"{path}:{line}: a rule needs a pattern and a class")
    if path != SHIPPED:  # every session compiles the shipped patterns anyway
        _check_pattern(path, line, pattern)
    collective = (row.get("collective") or "").strip() or None
    if collective is not None and collective not in COLLECTIVES:
        raise StoreError(
            f"{path}:{line}: {collective!r} is not a collective; use one of {', '.join(sorted(COLLECTIVES))}"
        )
    return Rule(pattern, kernel_class, collective, (row.get("note") or "").strip() or None)


def _sql_literal(value: str | None) -> str:
    return "null" if value is None else "'" + value.replace("'", "''") + "'"
