"""The layout of memory shared with the parser in C. Generated from layout.toml by `make parser`; do not edit."""

from enum import IntEnum

MAX_ARGUMENTS = 64
"""Arguments that the parser knows by name; sets of them are 64 bits."""
MAX_KINDS = 64
"""Kinds of events, each with a plan for its arguments."""
MAX_SHAPES = 32768
"""Shapes of the events of one chunk."""
MAX_WATCHED_NAMES = 8
"""Names that are part of an event's shape."""
NAMES_BYTES = 4096
"""Capacity for the text of all watched names and argument keys together."""
NOT_WATCHED = 255
"""The number in a shape whose events have no watched name."""
LIST_ITEMS = 3
"""Integers in a value of the type INT32_LIST."""
NO_ITEM = -9223372036854775808
"""The value of a list item that does not fit."""


class Column(IntEnum):
    """The columns of events; argument number n has column FIRST_ARGUMENT + n."""

    PH = 0
    CAT = 1
    NAME = 2
    PID = 3
    TID = 4
    START_NS = 5
    DUR_NS = 6
    LEFTOVER_ARGS = 7
    SECONDARY_LEFTOVER_ARGS = 8
    PID_TEXT = 9
    TID_TEXT = 10
    FIRST_ARGUMENT = 11


class ArgumentType(IntEnum):
    """How the values of an argument are stored: REDUNDANT has no column, ID32 also accepts 4294967295, REAL keeps its
    text.
    """

    REDUNDANT = 0
    INT64 = 1
    INT32 = 2
    REAL = 3
    STRING = 4
    JSON = 5
    INT32_LIST = 6
    ID32 = 7


Fields = tuple[tuple[str, str], ...]
"""Names of fields, each with its NumPy type, `address`, or the name of another struct."""

STRUCTS: dict[str, Fields] = {
    # Bytes of UTF-8 in the parser's memory; a null address means that there is no text.
    "Text": (("start", "address"), ("size", "u4")),
    # What decides the kind of an event: its phase, category, watched name, and whether it has the watched key.
    "Shape": (("ph", "Text"), ("cat", "Text"), ("watched_name", "u1"), ("has_watched_key", "?")),
    # The Arrow buffers of a column: numbers have no offsets; codes are those of a column whose texts are a dictionary.
    "ColumnBuffers": (("values", "address"), ("validity", "address"), ("offsets", "address"), ("codes", "address")),
    # How far the rows of one kind fill a column: values present, bytes of text used and reserved, next text without
    # offset.
    "ColumnFill": (("present", "u4"), ("position", "u4"), ("capacity", "u4"), ("next_text", "u4")),
    # The values of an argument that do not fit its column: how many, and the first one as JSON.
    "UnfitValues": (("count", "u4"), ("first", "Text")),
}
