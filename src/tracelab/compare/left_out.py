"""Why steps do not count where runs are compared: the reasons of counted_steps(), and their words."""

FIRST_OR_LAST, BEYOND_SHORTEST = "first_or_last", "beyond_shortest"
"""A step is the first or last, or the shortest recording has too few to leave these out."""
LEFT_OUT = {
    "no_gpu_work": "without recorded GPU work",
    "not_on_all_ranks": "not recorded on all ranks",
    FIRST_OR_LAST: "first or last",
    BEYOND_SHORTEST: "more than the shortest recording has",
}
"""The reasons in words."""
