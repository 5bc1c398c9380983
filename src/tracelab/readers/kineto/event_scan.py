"""Find where an event ends by its brackets, in text that may be damaged, in a time that is linear in its length.

Strings, brackets and the borders between events are recognized by what is beside them, so that a lost or added quote or
bracket misleads the scan for some tokens only.
"""

import re
from collections.abc import Set

_TOKEN = re.compile(
    r"""
    (?:
        [^][{}",:\\]++
      | "(?!ph"[ \t\r\n]*+:)(?:[^"\\]++|\\.)*+(?:"(?=[ \t\r\n]*+(?:[],}]|\Z))|(?<!\\"ph)"(?=[ \t\r\n]*+:))  # a string
      | "(?!ph"[ \t\r\n]*+:)  # a quote that begins no string
      | ,(?![ \t\r\n]*+\{)
      | :(?![ \t\r\n]*+[\[{])
      | \\(?:(?!"ph"[ \t\r\n]*+:)[^][{},:])?+
    )*+
    ( ,[ \t\r\n]*+\{ | :[ \t\r\n]*+[\[{] | \}++ | \]++ | [{\[] | "ph"[ \t\r\n]*+: | \Z )
    """,
    re.VERBOSE | re.DOTALL,
)
OBJECT_START = r'\{[ \t\r\n]*+"(?:[^"\\]|\\.){0,200}+"[ \t\r\n]*+:'
_OBJECT_START = re.compile(OBJECT_START, re.DOTALL)
_CUT_START = r'\{[ \t\r\n]*+(?:\Z|"(?:[^"\\]|\\.){0,200}+(?:\\?\Z|"[ \t\r\n]*+\Z))'
_CUT_OBJECT_START = re.compile(_CUT_START, re.DOTALL)
"""The end of the text does not show whether the object begins with a key."""
_AFTER_EVENT = re.compile(rf"[ \t\r\n]*+(?:,[ \t\r\n]*+(?:{OBJECT_START}|{_CUT_START})|{OBJECT_START}|\])", re.DOTALL)
_NEXT_OBJECT = re.compile(r"[ \t\r\n]*+,[ \t\r\n]*+\{")
_OPEN_STRING = re.compile(
    r'(?:[^"\\]++|\\.|"(?:[^"\\]++|\\.)*+"(?=[ \t\r\n]*+(?:[]:,}]|\Z)))*+"(?:[^"\\]++|\\.)*+\\?\Z', re.DOTALL
)
_STRING_END = re.compile(r'(?:[^"\\]++|\\.)*+"', re.DOTALL)

_EVENTS_KEY = 'traceEvents"'
_MAX_DEPTH = 5_000
"""More open brackets are damage: decoders refuse fewer."""
_OBJECT, _LIST, _OBJECT_LIST, _STRAY_LIST, _STRING = "{", "[", "L", "(", '"'
"""Open brackets: a list of objects hides borders, as its elements are part of the event; a list that is no value of a
key, nor inside such a list, is never taken for one of objects."""


class EventScan:
    """Follows the brackets from one place on; `opened` are those that are open there.

    Lists that begin in `endless` are known not to end: a border between objects in them is one between events.
    """

    def __init__(self, text: str, at: int, opened: str = "", *, endless: Set[int] = frozenset()) -> None:
        self._text, self._start, self._endless = text, at, endless
        self.position = at
        if opened.endswith(_STRING):
            string_end = _STRING_END.match(text, at)
            opened = opened.removesuffix(_STRING) if string_end else opened
            self.position = string_end.end() if string_end else len(text)
        self._opened = list(opened)
        self._positions = [-1] * len(opened)
        self._objects = opened.count(_OBJECT)
        self._object_lists = opened.count(_OBJECT_LIST)
        self._after_brace: int | None = None
        self._end: int | None = None
        self.is_closed = False
        """Whether the place returned last is behind the bracket that closes the event, and not before another event."""
        self.is_sound = True
        """Whether all brackets had a counterpart."""
        self._has_stray_object = False
        self._is_list_sound = True
        self.list_at: int | None = None
        """Where the outermost list of objects begins that is open, if it is the value of a key."""
        self._own_phases = 0
        self._inner_phases = self._listed_phases = 0

    def find_end(self) -> int | None:
        """Return the next place where the event may end; None where the text ends or is nested too deeply."""
        for match in _TOKEN.finditer(self._text, self.position):
            token, start = match[1], match.start(1)
            has_colon = token[:1] == ":"
            after_brace, self._after_brace = self._after_brace, None
            if not token:
                break
            end = None
            if token[0] in "]}":
                end = self._close(start, token)
                self.is_closed = end is not None
            elif has_colon:
                self._open_value(start, token[-1])
            elif token[-1] == "{":
                has_comma = token[0] == "," and self._text[start - 1 : start] != ":"
                may_be_border = has_comma or self._is_blank(after_brace, start)
                if may_be_border and start != self._end and self._is_border(match.end() - 1):
                    self.is_sound, self.is_closed = self.is_sound and not self._opened, False
                    end = start
                elif may_be_border and not self._is_in_list() and _CUT_OBJECT_START.match(self._text, match.end() - 1):
                    break
                else:
                    self._has_stray_object |= self._opened[-1:] == [_OBJECT]
                    self._open_object(start)
            elif token[-1] == "[":
                self._open_list(start, has_colon=False)
            else:
                self._count_phase()
            self.position = match.end() if end is None else end
            if end is not None or len(self._opened) > _MAX_DEPTH:
                self._end = end
                return end
        self._end = None
        return None

    def find_border(self) -> int | None:
        """Return where the damaged event ends, at the last place or later: where another event or none follows."""
        end = self.find_end() if self._end is None else self._end
        while end is not None and self.is_closed and not _AFTER_EVENT.match(self._text, end):
            self._mark_unsound()
            end = self.find_end()
        return end

    @property
    def missing_brackets(self) -> str:
        """The brackets that close what is open."""
        return "".join("}" if bracket == _OBJECT else "]" for bracket in reversed(self._opened))

    @property
    def is_too_deep(self) -> bool:
        """Whether the scan was given up."""
        return len(self._opened) > _MAX_DEPTH

    @property
    def own_phases(self) -> int:
        """How many phases the event has itself, without those of objects in it."""
        return self._own_phases

    @property
    def may_hold_events(self) -> bool:
        """Whether objects inside may be other events: one has no key, or is in an open list that is in no arguments.

        That is a list of the event itself, for the format has none but those in arguments, or one with stray brackets.
        """
        is_own_list = _OBJECT_LIST in self._opened[:1] or self._opened[:2] == [_OBJECT, _OBJECT_LIST]
        return self._has_stray_object or not self._is_list_sound or is_own_list

    @property
    def events(self) -> int:
        """How many events the text holds up to here, more than one where damage joins them.

        Objects in lists whose brackets match are none, nor any inner objects where those of the event match.
        """
        inner = 0 if self.is_sound else self._inner_phases + self._listed_phases
        return max(1, self._own_phases + inner)

    @property
    def open_positions(self) -> list[int]:
        """Where the brackets are that are open."""
        return self._positions

    def open_brackets(self) -> str:
        """Return what is open where the text ends, for the scan of the text that follows."""
        if self._opened[-1:] == [_STRING]:
            return "".join(self._opened)
        in_string = _OPEN_STRING.match(self._text, self.position) is not None
        return "".join(self._opened[:_MAX_DEPTH]) + (_STRING if in_string else "")

    def _is_in_list(self) -> bool:
        return self._object_lists > 0 or (bool(self._opened) and self._opened[-1] == _LIST)

    def _is_blank(self, start: int | None, end: int) -> bool:
        return start is not None and not self._text[start:end].strip(" \t\r\n")

    def _open_value(self, start: int, bracket: str) -> None:
        """Open the value of a key; a list that the key is in has lost its end."""
        while self._opened and self._opened[-1] == _LIST:
            self._pop()
            self._mark_unsound()
        if bracket == "{":
            self._open_object(start)
        else:
            self._open_list(start, has_colon=True)

    def _open_object(self, start: int) -> None:
        if self._opened and self._opened[-1] == _LIST:
            self._opened[-1] = _OBJECT_LIST
            self._object_lists += 1
            if self._object_lists == 1:
                start_of_list = self._positions[-1]
                self.list_at = start_of_list if self._text[start_of_list] == ":" else None
                self._is_list_sound = True
        self._push(_OBJECT, start)
        self._objects += 1

    def _open_list(self, start: int, *, has_colon: bool) -> None:
        container = self._opened[-1] if self._opened else None
        is_value = has_colon or (container == _OBJECT and self._text[start - 1] not in "{,")
        is_of_events = has_colon and self._text.endswith(_EVENTS_KEY, 0, start)
        is_list = (is_value or container in (_LIST, _OBJECT_LIST)) and start not in self._endless and not is_of_events
        self._push(_LIST if is_list else _STRAY_LIST, start)

    def _mark_unsound(self) -> None:
        self.is_sound = self._is_list_sound = False

    def _push(self, bracket: str, start: int) -> None:
        self._opened.append(bracket)
        self._positions.append(start)

    def _count_phase(self) -> None:
        if self._opened and self._opened[-1] != _OBJECT:
            self._mark_unsound()  # a key outside of an object
        if self._object_lists:
            self._listed_phases += 1
        elif self._objects <= 1:
            self._own_phases += 1
        else:
            self._inner_phases += 1

    def _is_border(self, brace: int) -> bool:
        """Whether the object that begins here is an event; in a list of objects it is part of one."""
        if self._opened and self._opened[-1] == _LIST:
            return False
        if self._object_lists:
            while self._opened[-1] not in (_LIST, _OBJECT_LIST):
                self._pop()
                self._mark_unsound()
            return False
        return _OBJECT_START.match(self._text, brace) is not None

    def _close(self, start: int, brackets: str) -> int | None:
        """Close equal brackets; return where the last one that was open ends, if so, or an object that began before."""
        for end, bracket in enumerate(brackets, start + 1):
            if not self._opened:
                self._mark_unsound()
                self._after_brace = start + len(brackets) if bracket == "}" else None
                return self._after_brace
            if bracket == "]":
                self._close_list()
            else:
                self._close_object(end)
            if not self._opened:
                self._after_brace = end if bracket == "}" else None
                return end
        self._after_brace = start + len(brackets) if brackets[0] == "}" else None
        return None

    def _close_list(self) -> None:
        if len(self._opened) == self._objects:
            self._mark_unsound()
            return
        while (bracket := self._pop()) == _OBJECT:
            self._mark_unsound()
        if bracket == _OBJECT_LIST and not self._object_lists:
            self._inner_phases += 0 if self._is_list_sound else self._listed_phases
            self._listed_phases = 0

    def _close_object(self, end: int) -> None:
        if self._opened[-1] != _OBJECT:
            self._mark_unsound()
            if self._opened[-1] == _OBJECT_LIST and _NEXT_OBJECT.match(self._text, end):
                return  # one bracket too many inside the list
        while self._opened and self._pop() != _OBJECT:
            pass
        if not self._object_lists:
            self._inner_phases += self._listed_phases
            self._listed_phases = 0

    def _pop(self) -> str:
        bracket = self._opened.pop()
        self._positions.pop()
        self._objects -= bracket == _OBJECT
        self._object_lists -= bracket == _OBJECT_LIST
        if bracket == _OBJECT_LIST and not self._object_lists:
            self.list_at = None
        return bracket
