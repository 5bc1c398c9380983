"""Decode and encode JSON without changing the text of its numbers."""

import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

_MAX_INTEGER_DIGITS = 400  # Python refuses more than 4,300, and no field needs more than 20


_LARGE_EXPONENT = 10**15


class Number(Decimal):
    """A number with a point or an exponent, or an unusual integer, with its text."""

    text: str

    def __new__(cls, text: str) -> "Number":
        """Keep the text; the value has another exponent where that is beyond what Decimal holds, 18 digits."""
        try:
            number = super().__new__(cls, text)
        except InvalidOperation:
            mantissa, _, exponent = text.lower().partition("e")
            number = super().__new__(cls, f"{mantissa}e{'-' if exponent.startswith('-') else ''}{_LARGE_EXPONENT}")
        number.text = text
        return number


def decoder(
    *, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None, constant: Callable[[str], Any] | None = None
) -> json.JSONDecoder:
    """Return a decoder whose numbers are int or Number; `pairs` makes objects, `constant` replaces NaN and infinity."""
    return json.JSONDecoder(
        object_pairs_hook=pairs,
        parse_float=Number,
        parse_int=_parse_integer,
        parse_constant=constant,
        strict=False,
    )


def encode(value: Any, other: Callable[[Any], None] | None = None) -> str:  # noqa: ANN401 - JSON
    """Return a value as JSON without space; numbers have the text that they had.

    What JSON has no form for is passed to `other`, and becomes null.
    """
    if isinstance(value, str):
        return _quote(value)
    parts = []  # loops, for comprehensions of Python 3.11 halve the depth that its stack allows
    if isinstance(value, dict):
        for key, item in value.items():
            parts.append(f"{_quote(key)}:{encode(item, other)}")
        return f"{{{','.join(parts)}}}"
    if isinstance(value, list):
        for item in value:
            parts.append(encode(item, other))  # noqa: PERF401
        return f"[{','.join(parts)}]"
    if isinstance(value, Number):
        return value.text
    if other and not isinstance(value, bool | int | None):
        other(value)
        return "null"
    return json.dumps(value)


def _parse_integer(digits: str) -> int | Number:
    return int(digits) if len(digits) < _MAX_INTEGER_DIGITS and digits != "-0" else Number(digits)


_quote = json.JSONEncoder(ensure_ascii=False).encode
