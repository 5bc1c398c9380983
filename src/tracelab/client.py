"""The Python client: the commands that read a store, as methods that return results."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tracelab import schema
from tracelab.output.result import Result, Titles
from tracelab.query import execute, library, spec
from tracelab.sql import sandbox
from tracelab.store import integrity, session


@dataclass(frozen=True)
class Lab:
    """An open store. Each call reads the store as it is at that moment."""

    store: Path

    def query(self, name: str, *, like: str | None = None, **params: spec.Value) -> Result:
        """Run a query of the library (`queries()` lists them) or an .sql file: `lab.query("nccl_share", rank=0).pl()`.

        `like="hta"` applies the definition of another tool, where the library has it.
        """
        query = library.find(name, like)
        return Result(self.run_query(query, params), query.title)

    def run_query(self, query: spec.Query, params: Mapping[str, spec.Value]) -> pa.Table:
        """Run a loaded query and return its rows as an Arrow table, in the sandbox where it is not the library's."""
        if library.is_shipped(query):
            with (
                session.connect(self.store, referenced=execute.referenced_sql(query)) as con,
                integrity.explain_read_errors(self.store),
                session.translate_errors(),
            ):
                con.execute("set enable_progress_bar = false").fetchall()  # DuckDB draws it on stdout, among the data
                return session.run_interruptible(con, lambda: execute.run(con, query, params))
        with sandbox.connect(self.store) as con, execute.locate_errors(query), session.translate_errors():
            sandbox.check(con, query.sql)
            return session.run_interruptible(con, lambda: execute.run(con, query, params))

    def sql(self, text: str) -> Result:
        """Run one SELECT over the store, in the sandbox of `tracelab sql`: `lab.sql("from runs").pl()`."""
        with sandbox.connect(self.store) as con:
            return Result(sandbox.run(con, text))

    def schema(self, table: str | None = None) -> Result:
        """Return the tables with what a row of each is, or the columns of one table with types and meanings."""
        described = schema.described(table)
        return Result(described, f"{table}: a row is {schema.BY_NAME[table].row}" if table else "")

    def queries(self) -> Titles:
        """Return the names of the library's queries with their titles."""
        return Titles({name: query.title for name, query in library.library().items()})

    def doctor(self, run: str | None = None) -> Result:
        """Check the store, or one run of it: what may be wrong and what to do, the worst first."""
        from tracelab import doctor

        with session.connect(self.store) as con, integrity.explain_read_errors(self.store), session.translate_errors():
            con.execute("set enable_progress_bar = false").fetchall()
            return Result(session.run_interruptible(con, lambda: doctor.examine(con, run)), "What may be wrong")
