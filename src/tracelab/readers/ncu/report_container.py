"""Check the lengths in a binary report before NVIDIA's module reads it: that one ends the process on some damage.

The form is NVIDIA's (extras/FileFormat/ProfilerReport.proto): a magic number, a header, and blocks. A block is a header
and a payload of entries. Headers and entries are Protobuf messages, each behind its length in four bytes.
"""

import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tracelab.readers.ncu.probe import REPORT_MAGIC

_PAYLOAD_BYTES = 5
"""The field of a block's header with the length of its payload; its other numbers count entries."""

_SKIP_BYTES = 1 << 20
_LENGTH = struct.Struct("<I")
_MORE = 0x80
_VARINT_BYTES = 10
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class DamagedReportError(Exception):
    """The lengths in a report contradict each other, or the file's end."""


@dataclass
class _Cursor:
    """A position in the content of a report, which may be compressed and so cannot be sought in."""

    stream: BinaryIO
    position: int = 0

    def read(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end."""
        data = self.stream.read(size)
        self.position += len(data)
        return data

    def read_whole(self, size: int) -> bytes:
        """Return the next bytes. Raises DamagedReportError at the end."""
        parts, missing = [], size
        while missing:
            parts.append(self.read(min(missing, _SKIP_BYTES)))
            if not parts[-1]:
                raise DamagedReportError(f"ends {missing:,} bytes early, at byte {self.position:,}")
            missing -= len(parts[-1])
        return b"".join(parts)

    def skip(self, size: int) -> None:
        """Pass over the next bytes. Raises DamagedReportError at the end."""
        while size:
            size -= len(self.read_whole(min(size, _SKIP_BYTES)))

    def read_sized(self) -> bytes:
        """Return the message behind its length."""
        (size,) = _LENGTH.unpack(self.read_whole(_LENGTH.size))
        return self.read_whole(size)


def count_undeclared_entries(path: Path) -> int:
    """Return how many entries the blocks hold beyond those that they declare. Raises DamagedReportError."""
    with path.open("rb") as stream:
        cursor = _Cursor(stream)
        if cursor.read_whole(len(REPORT_MAGIC)) != REPORT_MAGIC:
            raise DamagedReportError("has no header")
        cursor.read_sized()
        undeclared = 0
        while length := cursor.read(_LENGTH.size):
            (size,) = _LENGTH.unpack(length + cursor.read_whole(_LENGTH.size - len(length)))
            numbers = _sum_numbers(cursor.read_whole(size), cursor.position - size)
            entries = _count_entries(cursor, numbers.pop(_PAYLOAD_BYTES, 0))
            undeclared += max(0, entries - numbers.total())
        return undeclared


def _count_entries(cursor: _Cursor, payload_bytes: int) -> int:
    """Return the number of entries of a payload, and pass over it; 0 where it does not consist of entries."""
    end, count = cursor.position + payload_bytes, 0
    while end - cursor.position >= _LENGTH.size:
        (size,) = _LENGTH.unpack(cursor.read_whole(_LENGTH.size))
        if cursor.position + size > end:
            break
        cursor.skip(size)
        count += 1
    is_whole = cursor.position == end
    cursor.skip(end - cursor.position)
    return count if is_whole else 0


def _sum_numbers(message: bytes, start: int) -> Counter[int]:
    """Return the numbers of a Protobuf message by field; `start` is its place in the file."""
    numbers: Counter[int] = Counter()
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at, start)
        field, kind = key >> 3, key & 7
        size = {_FIXED64: 8, _FIXED32: 4}.get(kind, 0)
        if kind in (_VARINT, _BYTES):
            number, at = _read_varint(message, at, start)
            size = number if kind == _BYTES else 0
            numbers[field] += number if kind == _VARINT else 0
        if kind not in (_VARINT, _FIXED64, _BYTES, _FIXED32) or at + size > len(message):
            raise DamagedReportError(f"has a damaged block at byte {start + at:,}")
        at += size
    return numbers


def _read_varint(message: bytes, at: int, start: int) -> tuple[int, int]:
    """Return a number of seven bits a byte, and where it ends."""
    number = 0
    for place, byte in enumerate(message[at : at + _VARINT_BYTES]):
        number |= (byte & ~_MORE) << 7 * place
        if not byte & _MORE:
            return number, at + place + 1
    raise DamagedReportError(f"has a damaged block at byte {start + at:,}")
