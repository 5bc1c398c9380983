"""Look up texts in the string table of an export, once per distinct id and batch."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.export import Array, Export, iter_rows, read_records

_LONGEST_COPY = 16_384
"""Most characters of a text that each row has a copy of."""


@dataclass(frozen=True)
class StringTable:
    """Texts by ascending id."""

    ids: Array
    texts: Array

    def look_up(self, ids: Array, diagnostics: DiagnosticCounts, change: Callable[[str], str] | None = None) -> Array:
        """Return the texts of the ids, each changed; NULL for an id that is NULL or has no text.

        Each row has a copy, so texts are cut to some length that few have; `coded_texts` keeps them whole.
        """
        return map_distinct(ids, lambda distinct: _cut(self._look_up(distinct, diagnostics, change), diagnostics))

    def coded_texts(
        self, ids: Array, diagnostics: DiagnosticCounts, change: Callable[[str], str] | None = None
    ) -> Array:
        """Return the texts of the ids as a dictionary."""
        return map_distinct_coded(ids, lambda distinct: self._look_up(distinct, diagnostics, change))

    def _look_up(self, ids: Array, diagnostics: DiagnosticCounts, change: Callable[[str], str] | None) -> Array:
        requested = ids.to_numpy(zero_copy_only=False)
        positions = np.searchsorted(self.ids, requested)
        positions[positions == len(self.ids)] = 0
        is_found = self.ids[positions] == requested if len(self.ids) else np.zeros(len(requested), bool)
        if not is_found.all():
            missing = requested[~is_found]
            diagnostics.note("string_missing", missing[0], count=len(missing))
        texts = self.texts.take(pa.array(positions, mask=~is_found)).combine_chunks()
        if change is None:
            return texts
        return pa.array([None if text is None else change(text) for text in texts.to_pylist()], pa.string())


def _cut(texts: Array, diagnostics: DiagnosticCounts) -> Array:
    """Cut and count the texts that are too long for a copy in each row."""
    long = pc.sum(pc.greater(pc.utf8_length(texts), _LONGEST_COPY)).as_py()
    if not long:
        return texts
    diagnostics.note("text_cut", "value", count=long)
    return pc.utf8_slice_codeunits(texts, 0, _LONGEST_COPY)


def read_strings(export: Export, diagnostics: DiagnosticCounts) -> StringTable:
    """Read all strings of the export but private ones; for a repeated id, the first."""
    parts = list(iter_rows(export, "StringIds", {"id": "int", "value": "text"}, diagnostics, "strings_lost"))
    empty = pa.table({"id": pa.array([], pa.int64()), "value": pa.array([], pa.string())})
    table = pa.concat_tables([part for part in parts if part.num_columns == empty.num_columns] or [empty])
    table = table.filter(pc.is_valid(table.column("id")))
    ids = table.column("id").to_numpy()
    if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
        ids, positions = np.unique(ids, return_index=True)
        table = table.take(pa.array(positions))
    return StringTable(ids, _withhold_private_texts(ids, table.column("value"), _list_outputs(export)))


def _withhold_private_texts(ids: Array, texts: Array, outputs: Array) -> Array:
    """Replace environments (settings with zero bytes between) and output of the program by NULL.

    No event refers to them, unless damage changes its string id.
    """
    is_output = pc.and_(pc.is_in(pa.array(ids), outputs), pc.match_substring(texts, "\n"))
    is_private = pc.or_(is_output, pc.match_substring(texts, "\0"))
    return pc.if_else(is_private, None, texts) if pc.any(is_private).as_py() else texts


def _list_outputs(export: Export) -> Array:
    """Return the ids of the strings that hold what the program printed."""
    rows = read_records(export, "ProcessStreams", {"contentId": "int"}, DiagnosticCounts())
    return pa.array([row["contentId"] for row in rows], pa.int64())


def map_distinct(values: Array, change: Callable[[Array], Array]) -> Array:
    """Map each distinct value to another; NULL stays NULL."""
    coded = values.dictionary_encode()
    return change(coded.dictionary).take(coded.indices)


def map_distinct_coded(values: Array, change: Callable[[Array], Array]) -> Array:
    """Map each distinct value to a text, as a dictionary."""
    coded = values.dictionary_encode()
    return build_dictionary(coded.indices, change(coded.dictionary))


def build_dictionary(indices: Array, texts: Array) -> Array:
    """Build a dictionary from texts, which may be NULL, and indices.

    Plain text would need as much memory as a damaged or hostile export makes one text long, for each row.
    """
    if not len(texts):
        return texts.take(indices)
    if texts.null_count:
        indices = pc.if_else(pc.is_null(texts).take(indices), None, indices)
        texts = pc.fill_null(texts, "")
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), texts)
