"""Serialize JSON without losing digits of Decimals."""

import json
from decimal import Decimal

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
"""One encoder for all values: `json.dumps` builds one for each."""


def json_text(value: object) -> str:
    """Return a plain value as JSON text, Decimals with all digits. Raises ValueError for a number that JSON lacks."""
    try:
        return _encode(value)
    except TypeError:  # a Decimal, which `json` would write as text only
        return _json_with_decimals(value)


def _json_with_decimals(value: object) -> str:
    match value:
        case Decimal():
            return f"{value:f}"
        case dict():
            items = (f"{json_text(key)}: {_json_with_decimals(item)}" for key, item in value.items())
            return "{" + ", ".join(items) + "}"
        case list():
            return "[" + ", ".join(map(_json_with_decimals, value)) + "]"
    return json_text(value)
