"""Why steps do not count where runs are compared: the reasons of counted_steps(), and their words."""

NO_GPU_WORK, FIRST_OR_LAST, BEYOND_SHORTEST = "no_gpu_work", "first_or_last", "beyond_shortest"
"""A step lacks GPU work that others have, is first or last, or the shortest recording has too few for that."""
LEFT_OUT = {
    NO_GPU_WORK: "without recorded GPU work",
    "not_on_all_ranks": "not recorded on all ranks",
    FIRST_OR_LAST: "first or last",
    BEYOND_SHORTEST: "more than the shortest recording has",
}
"""The reasons in words."""
