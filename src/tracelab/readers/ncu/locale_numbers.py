"""Parse numbers in the formats of locales, 1,234.5 or 1.234,5, and values with a list of instances."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_SPACED = re.compile(r"(?<=\d)[\u00a0\u202f\u2009'\u2019 ](?=\d{3}(?!\d))")
_SPACES = re.compile(r"[\u00a0\u202f\u2009'\u2019 ]")
_NUMBER_LIKE = re.compile(r"[-+]?\d[\d.,'\u2019 \u00a0\u202f\u2009]*(?:[eE][-+]?\d+)?")
_INSTANCES = re.compile(r"(?P<total>[^()]*|\(!\) n/a)\((?P<parts>[^()]*)\)")
_NO_NUMBER = ("nan", "-nan", "inf", "-inf", "+inf", "n/a", "(!) n/a", "no data", "")
_LONGEST_NUMBER = 1000
"""Matching needs a hundred times the memory of the text, and a double has 767 digits at most."""
_LEAST_EVIDENCE = 2  # one cell can be anything: a typing error, a program's output


def _number_pattern(group: str, point: str) -> re.Pattern[str]:
    """Build the pattern of a number with these separators; groups of two digits are Indian."""
    digits = rf"(?:\d{{1,3}}(?:{group}\d{{2,3}})*{group}\d{{3}}|\d+)"
    return re.compile(rf"[-+]?(?:{digits}(?:{point}\d*)?|{point}\d+)(?:[eE][-+]?\d{{1,4}})?")


def _unambiguous_pattern(group: str, point: str) -> re.Pattern[str]:
    """Build the pattern of unambiguous numbers: two groups or more, or a fraction that is no group."""
    fraction = rf"(?:\d{{4,}}|0\d*|[1-9]\d{{0,2}}(?:{group}\d{{2,3}})*{group}\d{{3}}){point}\d+"
    short = rf"\d*{point}(?:\d{{1,2}}|\d{{4,}})"
    groups = rf"\d{{1,3}}(?:{group}\d{{2,3}})*{group}\d{{2,3}}{group}\d{{3}}(?:{point}\d*)?"
    return re.compile(rf"[-+]?(?:{fraction}|{short}|{groups})(?:[eE][-+]?\d{{1,4}})?")


@dataclass(frozen=True)
class NumberFormat:
    """Number format of a file."""

    group: str
    point: str
    pattern: re.Pattern[str]

    def normalize(self, text: str) -> str | None:
        """Return the number as float() and Decimal() parse it; None if the text is not a number."""
        if len(text) > _LONGEST_NUMBER:
            return None
        if _SPACES.search(text):
            text = _SPACED.sub("", text)
        if not self.pattern.fullmatch(text):
            return None
        return text.replace(self.group, "").replace(self.point, ".")


ENGLISH = NumberFormat(",", ".", _number_pattern(",", r"\."))
CONTINENTAL = NumberFormat(".", ",", _number_pattern(r"\.", ","))
_CERTAINLY_ENGLISH = _unambiguous_pattern(",", r"\.")
_CERTAINLY_CONTINENTAL = _unambiguous_pattern(r"\.", ",")


def detect_format(texts: Iterable[str]) -> NumberFormat:
    """Detect the format of numbers: a decimal point, unless several cells can only have a decimal comma."""
    english = continental = 0
    for text in texts:
        if len(text) > _LONGEST_NUMBER or text.isdecimal():
            continue
        english += bool(_CERTAINLY_ENGLISH.fullmatch(text))
        continental += bool(_CERTAINLY_CONTINENTAL.fullmatch(text))
    return CONTINENTAL if continental >= _LEAST_EVIDENCE and continental > english else ENGLISH


def looks_like_number(text: str) -> bool:
    """Return whether a text that is not a number in the file's format is probably meant as one."""
    return bool(_NUMBER_LIKE.fullmatch(text))


def parse_instances(text: str, number_format: NumberFormat) -> tuple[str, list[tuple[str, str]]] | None:
    """Parse a value and its instances, by name or else by index: "60 (0x10: 20; 0x20: 40)", "60 (20; 40)"."""
    if not text.endswith(")") or not (match := _INSTANCES.fullmatch(text)):
        return None
    total, parts = match["total"].strip(), []
    for index, part in enumerate(match["parts"].split(";")):
        name, _, value = part.strip().rpartition(": ")
        parts.append((name or str(index), value.strip()))
    values = [total, *(value for _, value in parts)]
    if all(value.lower() in _NO_NUMBER or number_format.normalize(value) is not None for value in values):
        return total, parts
    return None
