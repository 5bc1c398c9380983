"""The terminal's side of the prompt: history, completion, colours, and when Enter sends."""

import os
from contextlib import suppress
from pathlib import Path

import duckdb
from prompt_toolkit import PromptSession
from prompt_toolkit.filters import completion_is_selected, has_completions
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from tracelab.sql.repl.completion import NameCompleter
from tracelab.sql.repl.statements import is_complete


class _BestEffortHistory(FileHistory):
    """A history whose file may stop taking lines: the prompt goes on, and they are lost when it ends."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def history_path() -> Path:
    """Where the history stands: in the user's state directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    root = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return root / "tracelab" / "sql_history"


def open_history() -> History:
    """The history of earlier sessions; of this one only, where the file cannot be written."""
    try:
        path = history_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("ab"):
            return _BestEffortHistory(path)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return InMemoryHistory()


def create_prompt(con: duckdb.DuckDBPyConnection, past: History) -> tuple[PromptSession[str], NameCompleter]:
    """A prompt on the terminal, and its completer."""
    names = NameCompleter(con)
    prompt: PromptSession[str] = PromptSession(
        "tracelab> ",
        multiline=True,
        prompt_continuation=lambda width, *_: "…".rjust(width - 1) + " ",
        history=past,
        completer=names,
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=_key_bindings(),
        enable_history_search=True,
    )
    return prompt, names


def _key_bindings() -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter", filter=~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("enter", filter=has_completions & completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None  # take what is selected

    return keys
