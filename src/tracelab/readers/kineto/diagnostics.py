"""Messages for the diagnostic codes of a Kineto trace."""

from tracelab.readers.diagnostics import COMMON_MESSAGES, Messages

MESSAGES: Messages = {
    "cut_off": (
        "error",
        "The file is cut off before its end; all events before the cut were kept.",
        "Copy the file again, or export the trace again and give the process time to finish writing.",
    ),
    "no_events": (
        "warning",
        "The trace has no events: the profiler recorded nothing.",
        "Do the work while the profiler is at work: within its `with` block, and in an active step of its schedule.",
    ),
    "header_damaged": (
        "warning",
        "Not all top-level keys at {sample} could be parsed; rank, devices or clock may be missing.",
        "Export the trace again.",
    ),
    "keys_unread": (
        "warning",
        "More than 10,000 top-level keys, or 64 MB of them, precede the events; those from {sample} on were not read: "
        "rank, devices or clock may be missing.",
        None,
    ),
    "events_in_header": (
        "error",
        "{n} [event|events] in front of the event array [was|were] not read, since the array's key is damaged.",
        "Export the trace again.",
    ),
    "events_behind_end": (
        "error",
        "{n} [event|events] behind the end of the event array [was|were] not read.",
        "Split the file, if it holds several traces.",
    ),
    "events_twice": (
        "error",
        "The file has the key traceEvents twice; the events of the first one were kept.",
        "Split the file.",
    ),
    "event_lost": (
        "error",
        "{n} [event|events] could not be parsed; the first: {sample}",
        "Copy or export the trace again; if it stays, look for text that is no JSON, such as an unescaped quote.",
    ),
    "event_too_large": (
        "error",
        "{n} [event|events] of more than 64 MB, or of 500,000 values and damaged, [was|were] skipped; "
        "the first: {sample}",
        "Export the trace without the argument that is so long.",
    ),
    "event_repaired": (
        "warning",
        "{n} [event was|events were] not valid JSON and [was|were] repaired; the first: {sample}",
        None,
    ),
    "not_an_object": (
        "warning",
        "{n} [element of the event array is not an event|elements of the event array are not events]; "
        "the first: {sample}",
        None,
    ),
    "stray_bracket": (
        "warning",
        "{n} [bracket closes|brackets close] the event array before its end; the first: {sample}",
        None,
    ),
    "stray_comma": (
        "warning",
        "{n} stray [comma was|commas were] skipped between events; the first: {sample}",
        None,
    ),
    "invalid_text": (
        "warning",
        "Invalid UTF-8 in {n} [part|parts] of the file ({sample}); the invalid bytes were replaced.",
        "Re-save the file as UTF-8.",
    ),
    "duplicate_key": (
        "info",
        "{n} [object has|objects have] a key twice (among {sample}); the last value was kept.",
        None,
    ),
    "value_unfit": (
        "warning",
        "{n} [value does not fit its column and was|values do not fit their column and were] stored in args "
        "instead; the first: {sample}",
        None,
    ),
    "value_not_finite": (
        "warning",
        "{n} [value is NaN or infinite and was|values are NaN or infinite and were] stored as NULL.",
        None,
    ),
    "arguments_no_object": (
        "warning",
        "{n} [event has|events have] arguments that are not an object; the first: {sample}",
        None,
    ),
    "time_unreadable": (
        "warning",
        "{n} [time is not a number, or beyond 146 years, and was|"
        "times are not numbers, or beyond 146 years, and were] stored as NULL; the first: {sample}",
        None,
    ),
    "device_events_unmapped": (
        "warning",
        "{n} [event|events] of an accelerator ({sample}) [has|have] no table of [its|their] own; query [it|them] in "
        "other_events.",
        None,
    ),
    "copy_undirected": (
        "info",
        "{n} [copy|copies] of an Ascend device ({sample}) [has|have] no direction in the trace; [its|their] direction "
        "is unknown.",
        "Record with CANN 8 or newer, which writes the direction.",
    ),
    "op_unpaired": (
        "warning",
        "{n} [event that begins or ends an op has|events that begin or end an op have] no counterpart (among them "
        "{sample}); query [it|them] in other_events.",
        None,
    ),
    "time_missing": ("warning", "{n} [event with a duration has|events with a duration have] no start time.", None),
    "parsed_in_python": (
        "info",
        "The compiled parser cannot run here ({sample}); the events were parsed in Python: the same rows, more slowly.",
        "Install wasmtime in the environment of tracelab.",
    ),
    **COMMON_MESSAGES,
    "size_from_launch": (
        "info",
        "{n} [copy has no size in the trace; the size of its launch was used|"
        "copies have no size in the trace; the sizes of their launches were used].",
        None,
    ),
}
