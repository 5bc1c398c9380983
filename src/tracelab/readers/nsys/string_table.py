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

_PRIVATE_FORM = r"^[A-Za-z_][A-Za-z0-9_]*=[^=(]|\n|^(?:~|\.{0,2})/\S*\s|\s--[A-Za-z]|^(?:\S*/)?python[0-9.]*\s"
"""A setting, output of several lines, or a command line: no name of a kernel or an API function has such a form."""

_SETTING = r"^[A-Za-z_][A-Za-z0-9_]*="
_ENVIRONMENT_SETTING = r"^(?:[A-Z_][A-Z0-9_]*|\w*(?i:auth|cred|key|pass|proxy|secret|token)\w*)="
_SETTING_OF_NUMBER = r"^\w+=[0-9.,:x/]{1,8}(?:\s|$)"
"""A user's text such as `BATCH=32`: too short to be worth hiding."""


@dataclass(frozen=True)
class StringTable:
    """Texts by ascending id."""

    ids: Array
    texts: Array
    is_private: Array
    """For each text, whether it is part of an environment or of what the program printed."""

    def look_up(self, ids: Array, diagnostics: DiagnosticCounts) -> Array:
        """Return the texts, which are a user's, of the ids; NULL for an id that is NULL or has no text.

        Each row has a copy, so texts are cut to some length that few have; `coded_texts` keeps them whole.
        """
        return map_distinct(
            ids, lambda distinct: _cut(self._look_up(distinct, diagnostics, None, is_user_text=True), diagnostics)
        )

    def coded_texts(
        self,
        ids: Array,
        diagnostics: DiagnosticCounts,
        change: Callable[[str], str] | None = None,
        *,
        is_user_text: bool = False,
    ) -> Array:
        """Return the texts of the ids as a dictionary; a user's text, such as of NVTX, may have any form."""
        return map_distinct_coded(
            ids, lambda distinct: self._look_up(distinct, diagnostics, change, is_user_text=is_user_text)
        )

    def _look_up(
        self,
        ids: Array,
        diagnostics: DiagnosticCounts,
        change: Callable[[str], str] | None,
        *,
        is_user_text: bool,
    ) -> Array:
        requested = ids.to_numpy(zero_copy_only=False)
        positions = np.searchsorted(self.ids, requested)
        positions[positions == len(self.ids)] = 0
        is_found = self.ids[positions] == requested if len(self.ids) else np.zeros(len(requested), bool)
        if not is_found.all():
            missing = requested[~is_found]
            diagnostics.note("string_missing", missing[0], count=len(missing))
        positions = pa.array(positions, mask=~is_found)
        texts = self.texts.take(positions).combine_chunks()
        is_private = self.is_private.take(positions).combine_chunks().fill_null(fill_value=False)
        if not is_user_text:
            is_private = pc.or_(is_private, pc.match_substring_regex(texts, _PRIVATE_FORM).fill_null(fill_value=False))
        if count := pc.sum(is_private).as_py():
            diagnostics.note("text_withheld", count=count)
            texts = pc.if_else(is_private, None, texts)
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
    """Read all strings of the export; for a repeated id, the first."""
    parts = list(iter_rows(export, "StringIds", {"id": "int", "value": "text"}, diagnostics, "strings_lost"))
    empty = pa.table({"id": pa.array([], pa.int64()), "value": pa.array([], pa.string())})
    table = pa.concat_tables([part for part in parts if part.num_columns == empty.num_columns] or [empty])
    table = table.filter(pc.is_valid(table.column("id")))
    ids = table.column("id").to_numpy()
    if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
        ids, positions = np.unique(ids, return_index=True)
        table = table.take(pa.array(positions))
    texts = table.column("value")
    return StringTable(ids, texts, _find_private_texts(ids, texts, _list_private_ids(export)))


def _find_private_texts(ids: Array, texts: Array, private_ids: Array) -> Array:
    """Return which texts are environments or listed as private.

    No event refers to them, unless damage changes its string id. Names of API functions are public even if listed,
    since damage can change that id too.
    """
    is_listed = pc.and_(pc.is_in(pa.array(ids), private_ids), pc.greater(pc.utf8_length(texts), 0))
    is_listed = pc.and_not(is_listed, pc.match_substring_regex(texts, r"^cu[A-Za-z0-9]+_v[0-9]+$"))
    return pc.or_(is_listed, _find_environments(texts)).fill_null(fill_value=False)


def _find_environments(texts: Array) -> Array:
    """Return which texts are environments of processes: settings with zero bytes between, or a single setting.

    A user may name an event `step=3`. A single setting is an environment if it has the name of a variable, or if its id
    is next to that of another environment: nsys numbers the environments of the processes one after the other.
    """
    is_environment = pc.match_substring(texts, "\0").fill_null(fill_value=False).to_numpy()
    is_setting = pc.match_substring_regex(texts, _SETTING).fill_null(fill_value=False).to_numpy()
    if not is_setting.any():
        return pa.array(is_environment)
    run_of_text = np.cumsum(~(is_environment | is_setting))
    is_beside = is_setting & np.isin(run_of_text, run_of_text[is_environment])
    has_name = pc.and_not(
        pc.match_substring_regex(texts, _ENVIRONMENT_SETTING), pc.match_substring_regex(texts, _SETTING_OF_NUMBER)
    ).fill_null(fill_value=False)
    return pa.array(is_environment | is_beside | has_name.to_numpy())


def _list_private_ids(export: Export) -> Array:
    """Return the ids of the strings that hold what programs printed, and the files they came from."""
    ids = []
    for table in ("ProcessStreams", "ANALYSIS_FILE"):
        rows = read_records(export, table, {"filenameId": "int", "contentId": "int"}, DiagnosticCounts())
        ids += [value for row in rows for value in row.values()]
    return pa.array(ids, pa.int64())


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
