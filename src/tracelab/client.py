"""Python's door to a store: the verbs of the command line, with Arrow tables for answers that show themselves well."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tracelab import doctor, schema
from tracelab.output.notebook import Titles, titled
from tracelab.query import library
from tracelab.sql import sandbox
from tracelab.store import integrity, session


@dataclass(frozen=True)
class Lab:
    """A store that can be asked. Every question sees what is in the store at that moment."""

    store: Path

    def query(self, name: str, *, like: str | None = None, **params: library.Value) -> pa.Table:
        """Answer a question of the library (`queries()` lists them), or of an .sql file, as an Arrow table.

        `like="hta"` asks it in the definition of another tool, where the library has that one.
        One step away: `polars.from_arrow(answer)`, `answer.to_pandas()`, `duckdb.from_arrow(answer)`.
        """
        question = library.find(name, like)
        return titled(self.ask(question, params), question.title)

    def ask(self, question: library.Query, params: Mapping[str, library.Value]) -> pa.Table:
        """Answer a question that was found; one that is not the library's runs in the box."""
        if library.is_shipped(question):
            referenced = library.referenced_sql(question)
            with (
                session.connect(self.store, referenced=referenced) as con,
                integrity.explain_read_errors(self.store),
                sandbox.translate_errors(),
            ):
                con.execute("set enable_progress_bar = false").fetchall()  # DuckDB draws it on stdout, among the data
                return sandbox.run_interruptible(con, lambda: library.run(con, question, params))
        with sandbox.connect(self.store) as con, sandbox.translate_errors():
            sandbox.check(con, question.sql)
            return sandbox.run_interruptible(con, lambda: library.run(con, question, params))

    def sql(self, text: str) -> pa.Table:
        """Run one SELECT over the store, in the box that `tracelab sql` uses."""
        with sandbox.connect(self.store) as con:
            return titled(sandbox.run(con, text), "")

    def schema(self, table: str | None = None) -> pa.Table:
        """The tables with what a row of each is; or one table's columns with types and meanings."""
        described = schema.described(table)
        return titled(described, f"{table}: a row is {schema.BY_NAME[table].row}" if table else "")

    def queries(self) -> Titles:
        """The library: what can be asked, and what each question answers."""
        return Titles({name: question.title for name, question in library.library().items()})

    def doctor(self, run: str | None = None) -> pa.Table:
        """What may be wrong with the store, or with one run of it, and what to do; the worst first."""
        with session.connect(self.store) as con, integrity.explain_read_errors(self.store), sandbox.translate_errors():
            con.execute("set enable_progress_bar = false").fetchall()
            return titled(sandbox.run_interruptible(con, lambda: doctor.examine(con, run)), "What may be wrong")
