"""Remember in Python what follows from the rows of a session, while there is memory for it."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import duckdb

from tracelab.store.shared_relations import SCHEMA, create_schema

MOST_BYTES = 64 << 20
"""All sessions of a process together keep so much; what was not used for the longest time is forgotten first."""

_KEY = f"{SCHEMA}.session_key"
_OVERHEAD_BYTES = 1_000
"""Of a value, beside its rows."""


class _Values:
    """Values by session and key, in the order of their last use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: OrderedDict[tuple[str, Hashable], tuple[Any, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[str, Hashable]) -> Any:  # noqa: ANN401  of the type that was put
        with self._lock:
            value, _ = self._values.get(key, (None, 0))
            if value is not None:
                self._values.move_to_end(key)
            return value

    def put(self, key: tuple[str, Hashable], value: object, size_bytes: int) -> None:
        with self._lock:
            _, replaced_bytes = self._values.pop(key, (None, 0))
            self._values[key] = value, size_bytes
            self._bytes += size_bytes - replaced_bytes
            while self._bytes > MOST_BYTES:
                _, (_, forgotten_bytes) = self._values.popitem(last=False)
                self._bytes -= forgotten_bytes


_VALUES = _Values()


@dataclass(frozen=True)
class SessionCache:
    """Values of a session and its cursors, by keys that name what they follow from beside its rows."""

    session: str

    @classmethod
    def of(cls, con: duckdb.DuckDBPyConnection) -> "SessionCache":
        """Return the cache of a session: an empty one where computed rows were dropped, since the rows changed."""
        create_schema(con)
        con.execute(f"create macro if not exists {_KEY}() as '{uuid4()}'").fetchall()
        ((session,),) = con.execute(f"select {_KEY}()").fetchall()
        return cls(str(session))

    def get(self, key: Hashable) -> Any:  # noqa: ANN401  of the type that was put
        """Return a value; None where there is none."""
        return _VALUES.get((self.session, key))

    def put(self, key: Hashable, value: object, size_bytes: int) -> None:
        """Remember a value of so many bytes, and forget others where all take more than MOST_BYTES."""
        _VALUES.put((self.session, key), value, size_bytes + _OVERHEAD_BYTES)

    def get_or_make(self, key: Hashable, make: Callable[[], Any], size_bytes: int = 0) -> Any:  # noqa: ANN401
        """Return a value, which is made where there is none."""
        value = self.get(key)
        if value is None:
            value = make()
            self.put(key, value, size_bytes)
        return value
