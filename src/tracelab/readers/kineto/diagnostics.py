"""The sentences behind the codes that reading a trace can leave."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file ends before its events do; what stood before the cut was kept.",
        "Export the trace again; leave the process time to write it.",
    ),
    "header_damaged": (
        "warning",
        "The keys beside the events could not all be read, near {sample}; rank, devices or clock may be missing.",
        "Export the trace again.",
    ),
    "events_twice": (
        "error",
        "The key traceEvents stands twice in the file; the events of the first were kept.",
        "Split the file.",
    ),
    "event_lost": ("error", "{n} [event|events] could not be read; the first: {sample}", "Export with a newer torch."),
    "event_repaired": (
        "warning",
        "{n} [event was|events were] no valid JSON and [was|were] repaired; the first: {sample}",
        None,
    ),
    "not_an_object": (
        "warning",
        "{n} [element of the event array is no event|elements of the event array are no events]; the first: {sample}",
        None,
    ),
    "stray_bracket": (
        "warning",
        "{n} [bracket closes|brackets close] the event array where it goes on; the first: {sample}",
        None,
    ),
    "invalid_text": ("warning", "{n} [place is|places are] not UTF-8 ({sample}); the characters were replaced.", None),
    "duplicate_key": (
        "info",
        "{n} [object has|objects have] a key twice (among {sample}); the last value was kept.",
        None,
    ),
    "value_unfit": (
        "warning",
        "{n} [value does not fit its column and stands|values do not fit their column and stand] in args "
        "instead; the first: {sample}",
        None,
    ),
    "value_not_finite": (
        "warning",
        "{n} [value is NaN or infinite and was|values are NaN or infinite and were] stored as null.",
        None,
    ),
    "arguments_no_object": (
        "warning",
        "{n} [event has|events have] arguments that are no object; the first: {sample}",
        None,
    ),
    "time_unreadable": (
        "warning",
        "{n} [time is no number, or beyond 146 years, and was|"
        "times are no numbers, or beyond 146 years, and were] stored as NULL; the first: {sample}",
        None,
    ),
    "time_missing": ("warning", "{n} [event with a duration has|events with a duration have] no start.", None),
    "parsed_in_python": (
        "info",
        "The compiled parser cannot run here ({sample}); the events were parsed in Python: the same rows, more slowly.",
        "Install wasmtime in the environment of tracelab.",
    ),
    **COMMON_MESSAGES,
    "size_from_launch": (
        "info",
        "{n} [copy has no size of its own; it was taken from its|"
        "copies have no size of their own; it was taken from their] launch.",
        None,
    ),
}
