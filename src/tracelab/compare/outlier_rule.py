"""The rule by which one value of several is an outlier, in Python and in SQL.

A value is one if it is away from the median of the others

    by more than 20 % of that (`LEAST_RATIO`), and
    by more than 3.5 scaled median absolute deviations of the others (`MOST_DEVIATIONS`): the modified z-score of
    Iglewicz and Hoaglin, "How to Detect and Handle Outliers" (1993), whose scale is that of a normal distribution.

Of two or three values the deviations are small or 0, and the ratio decides.
"""

LEAST_RATIO = 0.2
MOST_DEVIATIONS = 3.5
_NORMAL_SCALE = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""


def least_distance(typical: float, deviation: float) -> float:
    """Return how far from the median of the others an outlier is at least, by that and their median deviation."""
    return max(LEAST_RATIO * abs(typical), MOST_DEVIATIONS * _NORMAL_SCALE * deviation)


def least_distance_sql(typical: str, deviation: str) -> str:
    """Return SQL for `least_distance` of two columns."""
    return f"greatest({LEAST_RATIO} * abs({typical}), {MOST_DEVIATIONS} * {_NORMAL_SCALE} * {deviation})"
