"""The export's table of strings: ids become text, each distinct one once a batch."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tracelab.readers.diagnostics import DiagnosticCounts
from tracelab.readers.nsys.export import Array, Export, iter_rows


@dataclass(frozen=True)
class StringTable:
    """Texts by ascending id."""

    ids: Array
    texts: Array

    def of(self, ids: Array, diagnostics: DiagnosticCounts, change: Callable[[str], str] | None = None) -> Array:
        """The texts of the ids, each changed; NULL where the id is, or has none."""
        return map_distinct(ids, lambda distinct: self._looked_up(distinct, diagnostics, change))

    def coded(self, ids: Array, diagnostics: DiagnosticCounts, change: Callable[[str], str] | None = None) -> Array:
        """The same as a dictionary."""
        return map_distinct_coded(ids, lambda distinct: self._looked_up(distinct, diagnostics, change))

    def _looked_up(self, ids: Array, diagnostics: DiagnosticCounts, change: Callable[[str], str] | None) -> Array:
        wanted = ids.to_numpy(zero_copy_only=False)
        places = np.searchsorted(self.ids, wanted)
        places[places == len(self.ids)] = 0
        found = self.ids[places] == wanted if len(self.ids) else np.zeros(len(wanted), bool)
        if not found.all():
            missing = wanted[~found]
            diagnostics.note("string_missing", missing[0], count=len(missing))
        texts = self.texts.take(pa.array(places, mask=~found)).combine_chunks()
        if change is None:
            return texts
        return pa.array([None if text is None else change(text) for text in texts.to_pylist()], pa.string())


def read_strings(export: Export, diagnostics: DiagnosticCounts) -> StringTable:
    """All strings of the export; of an id that stands twice the first."""
    parts = list(iter_rows(export, "StringIds", {"id": "int", "value": "text"}, diagnostics, "strings_lost"))
    empty = pa.table({"id": pa.array([], pa.int64()), "value": pa.array([], pa.string())})
    table = pa.concat_tables([part for part in parts if part.num_columns == empty.num_columns] or [empty])
    table = table.filter(pc.is_valid(table.column("id")))
    ids = table.column("id").to_numpy()
    if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
        ids, places = np.unique(ids, return_index=True)
        table = table.take(pa.array(places))
    return StringTable(ids, table.column("value"))


def map_distinct(values: Array, change: Callable[[Array], Array]) -> Array:
    """What each distinct value changes to, where it stands; NULL stays."""
    coded = values.dictionary_encode()
    return change(coded.dictionary).take(coded.indices)


def map_distinct_coded(values: Array, change: Callable[[Array], Array]) -> Array:
    """The same as a dictionary, which need not be spelled out; as plain text where that has a NULL."""
    coded = values.dictionary_encode()
    return build_dictionary(coded.indices, change(coded.dictionary))


def build_dictionary(indices: Array, texts: Array) -> Array:
    """Texts by place, as a dictionary where none is NULL."""
    if texts.null_count or not len(texts):
        return texts.take(indices)
    return pa.DictionaryArray.from_arrays(indices.cast(pa.int32()), texts)
