"""Write commands of tracelab that people can paste into a shell: quoted, and with the options that name their store."""

import shlex
from dataclasses import dataclass
from pathlib import Path

from tracelab import schema


@dataclass(frozen=True)
class StoreCommands:
    """Commands on one store; a `store` of None is the default one, which needs no option."""

    store: Path | None = None
    aligned: bool = False
    """Whether the times of all ranks are on one clock, which the commands then request, too."""
    scope_options: tuple[str, ...] = ()
    """The options that restrict commands to a part of each recording."""

    def query(self, name: str, **params: object) -> str:
        """Return the command that runs a query; parameters of None are left out."""
        options = [
            word
            for param, value in params.items()
            if value is not None
            for word in (f"--{param.replace('_', '-')}", str(value))
        ]
        return self._render("query", name, *options, *self._shared_options())

    def summary(self, *options: str) -> str:
        """Return the command that prints the summary."""
        return self._render("summary", *options, *self._shared_options())

    def report(self, *options: str) -> str:
        """Return the command that writes the report."""
        return self._render("report", *options, *self._shared_options())

    def compare(self, base: str, candidate: str) -> str:
        """Return the command that compares two runs."""
        return self._render("compare", base, candidate)

    def _shared_options(self) -> tuple[str, ...]:
        return (*(("--aligned",) if self.aligned else ()), *self.scope_options)

    def _render(self, *words: str) -> str:
        is_default = self.store is None or self.store == schema.store_path(None)
        return shlex.join(["tracelab", *words, *(() if is_default else ("--store", str(self.store)))])


DEFAULT_STORE = StoreCommands()
