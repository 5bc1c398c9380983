"""Writes layout.h and layout.py from layout.toml: `python generate_layout.py`, part of `make parser`."""

import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
DESCRIPTION = FOLDER / "layout.toml"
HEADER = FOLDER / "c" / "layout.h"
MODULE = FOLDER / "layout.py"

_WIDTH = 120
_NOTICE = "Generated from layout.toml by `make parser`; do not edit."

_C_TYPES = {
    "bool": "bool ",
    "uint8": "uint8_t ",
    "uint32": "uint32_t ",
    "bytes": "uint8_t *",
    "const bytes": "const uint8_t *",
    "words": "uint32_t *",
}
_NUMPY_TYPES = {"bool": "?", "uint8": "u1", "uint32": "u4", "bytes": "address", "const bytes": "address"}
_NUMPY_TYPES |= {"words": "address"}


def generate() -> dict[Path, str]:
    """Return the text of each generated file."""
    layout = tomllib.loads(DESCRIPTION.read_text(encoding="utf-8"))
    return {HEADER: render_header(layout), MODULE: render_module(layout)}


def render_header(layout: Mapping[str, Any]) -> str:
    """Return the C header."""
    lines = ["// The layout of memory shared with Python.", f"// {_NOTICE}", "", "#pragma once", ""]
    lines += ["#include <stdbool.h>", "#include <stdint.h>"]
    for constant in layout["constant"]:
        lines += ["", *_comment(constant["doc"]), f"#define {constant['name']} {_c_integer(constant['value'])}"]
    for enum in layout["enum"]:
        members = [f"{enum['prefix']}_{member}" for member in enum["members"]]
        lines += ["", *_comment(enum["doc"]), f"enum {enum['name']} {{"]
        lines += [f"    {member} = {number}," for number, member in enumerate(members)]
        lines.append("};")
    for struct in layout["struct"]:
        lines += ["", *_comment(struct["doc"]), "typedef struct {"]
        lines += [f"    {_C_TYPES.get(kind, kind + ' ')}{name};" for name, kind in struct["fields"]]
        lines.append(f"}} {struct['name']};")
    return "\n".join(lines) + "\n"


def render_module(layout: Mapping[str, Any]) -> str:
    """Return the Python module."""
    lines = [f'"""The layout of memory shared with the parser in C. {_NOTICE}"""', "", "from enum import IntEnum", ""]
    for constant in layout["constant"]:
        lines += [f"{constant['name']} = {constant['value']}", f'"""{constant["doc"]}"""']
    for enum in layout["enum"]:
        lines += ["", "", f"class {enum['name']}(IntEnum):", *_docstring(enum["doc"]), ""]
        lines += [f"    {member} = {number}" for number, member in enumerate(enum["members"])]
    lines += [
        "",
        "",
        "Fields = tuple[tuple[str, str], ...]",
        '"""Names of fields, each with its NumPy type, `address`, or the name of another struct."""',
        "",
    ]
    lines.append("STRUCTS: dict[str, Fields] = {")
    for struct in layout["struct"]:
        fields = [f'("{name}", "{_NUMPY_TYPES.get(kind, kind)}")' for name, kind in struct["fields"]]
        lines += [f"    # {line}" for line in textwrap.wrap(struct["doc"], _WIDTH - 6)]
        lines.append(f'    "{struct["name"]}": ({", ".join(fields)}),')
    return "\n".join([*lines, "}"]) + "\n"


def _comment(text: str) -> list[str]:
    return [f"// {line}" for line in textwrap.wrap(text, _WIDTH - 3)]


def _docstring(text: str) -> list[str]:
    if len(text) <= _WIDTH - 10:
        return [f'    """{text}"""']
    return ['    """' + textwrap.fill(text, _WIDTH - 7, subsequent_indent="    "), '    """']


def _c_integer(value: int) -> str:
    return "INT64_MIN" if value == -(1 << 63) else str(value)


if __name__ == "__main__":
    for path, content in generate().items():
        path.write_text(content, encoding="utf-8")
