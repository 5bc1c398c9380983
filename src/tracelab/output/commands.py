"""Write commands of tracelab that people can paste into a shell: quoted, and with the options that name their store."""

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StoreCommands:
    """Commands on one store; a `store` of None is the default one, which needs no option."""

    store: Path | str | None = None
    aligned: bool = False
    """Whether the times of all ranks are on one clock, which the commands then request, too."""
    scope_options: tuple[str, ...] = ()
    """The options that restrict commands to a part of each recording."""
    unscoped_queries: frozenset[str] = frozenset()
    """Queries that take no scope: they read nothing with a place in a recording."""
    started_runs: frozenset[str] = frozenset()
    """Runs whose program start summary and report leave out by default, and a query only on request."""
    is_whole: bool = False
    """Whether summary, report and comparison keep program starts, which takes an option."""

    def query(self, name: str, **params: object) -> str:
        """Return the command that runs a query; parameters of None are left out."""
        options = [
            word for param, value in params.items() if value is not None for word in _spell_option(param, str(value))
        ]
        run = params.get("run")
        starts = self.started_runs if run is None else self.started_runs & {str(run)}
        scope = (*self.scope_options, *(("--after-start",) if starts else ()))
        return self._render("query", name, *options, *self._clock(), *(() if name in self.unscoped_queries else scope))

    def summary(self, *options: str) -> str:
        """Return the command that prints the summary."""
        return self._render("summary", *options, *self._clock(), *self.scope_options, *self._whole())

    def report(self, *options: str) -> str:
        """Return the command that writes the report."""
        return self._render("report", *options, *self._clock(), *self.scope_options, *self._whole())

    def compare(self, base: str, candidate: str) -> str:
        """Return the command that compares two runs."""
        return self._render("compare", base, candidate, *self._whole())

    def _clock(self) -> tuple[str, ...]:
        return ("--aligned",) if self.aligned else ()

    def _whole(self) -> tuple[str, ...]:
        return ("--whole",) if self.is_whole else ()

    def _render(self, *words: str) -> str:
        return shlex.join(["tracelab", *words, *(() if self.store is None else ("--store", str(self.store)))])


def _spell_option(param: str, value: str) -> tuple[str, ...]:
    """Return the words of an option: one where its value would be taken for an option."""
    option = f"--{param.replace('_', '-')}"
    return (f"{option}={value}",) if value.startswith("-") else (option, value)


DEFAULT_STORE = StoreCommands()
