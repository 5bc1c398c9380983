"""The terminal of the shell: history, completion, colors and key bindings."""

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
    """A history that survives a full disk: new lines then last for this session only."""

    def store_string(self, string: str) -> None:
        with suppress(OSError):
            super().store_string(string)


def history_path() -> Path:
    """Return the path of the history file in the user's state directory."""
    state = os.environ.get("XDG_STATE_HOME", "")
    root = Path(state) if Path(state).is_absolute() else Path.home() / ".local" / "state"
    return root / "tracelab" / "sql_history"


def open_history() -> History:
    """Open the history of earlier sessions; in memory only if the file is not writable."""
    try:
        path = history_path()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        with path.open("ab"):
            return _BestEffortHistory(path)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return InMemoryHistory()


def create_prompt(con: duckdb.DuckDBPyConnection, past: History) -> tuple[PromptSession[str], NameCompleter]:
    """Create the prompt and its completer."""
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
        event.current_buffer.complete_state = None  # accept the selected completion

    return keys
