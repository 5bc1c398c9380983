"""Reads a report as a browser would, with Python's own HTML parser."""

from dataclasses import dataclass, field
from html.parser import HTMLParser


@dataclass
class Found:
    """What a report holds: elements with attributes, the rows of each part's table, texts by part, scripts, JSON."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    heads: dict[str, list[str]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    scripts: list[str] = field(default_factory=list)
    blocks: list[str] = field(default_factory=list)


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found = Found()
        self.part = ""
        self.cell: list[str] | None = None
        self.is_number = False
        self.written: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.found.elements.append((tag, attributes))
        match tag:
            case "article" | "section":
                self.part = attributes["id"] or ""
            case "tbody":
                self.found.tables[self.part] = []
            case "tr" if self.part in self.found.tables:
                self.found.tables[self.part].append([])
            case "th":
                self.cell = [""]
                self.found.heads.setdefault(self.part, []).append("")
            case "td":
                is_number, exact = "class" not in attributes, (attributes.get("title") or "").split(" ")[0]
                self.found.tables[self.part][-1].append(exact if is_number else "")
                self.cell = None if is_number and exact else self.found.tables[self.part][-1]
                self.is_number = is_number
            case "script":
                self.written = self.found.blocks if attributes.get("type") == "application/json" else self.found.scripts
                self.written.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.written[-1] += data
        elif (
            self.lasttag in {"th", "span", "wbr"}
            and self.part not in self.found.tables
            and self.part in self.found.heads
        ):
            self.found.heads[self.part][-1] += data.strip()
        elif self.lasttag == "td":
            if self.cell is not None:
                said = data.rstrip("\n")
                self.cell[-1] += said.split(" ")[0].replace(",", "") if self.is_number else said
        else:
            self.found.texts[self.part] = self.found.texts.get(self.part, "") + data

    def handle_endtag(self, tag: str) -> None:
        if tag in {"tbody", "script"}:
            self.lasttag = tag + " ended"
            self.cell = None


def read(page: str) -> Found:
    """Parse a report."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader.found


def column(found: Found, part: str, name: str) -> list[str]:
    """What a part's table holds in a column, exact where it is a number."""
    at = found.heads[part].index(name)
    return [row[at] for row in found.tables[part]]
