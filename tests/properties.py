"""How many random examples each property is checked with; a profile of hypothesis scales the count.

The profile `usual` (make test) checks a quarter of the count that a property names, `quick` (make check) a tenth and
`nightly` twenty times as many. HYPOTHESIS_PROFILE selects one, and so does pytest --hypothesis-profile.
"""

from typing import Any

from hypothesis import settings

USUAL = "usual"
for _name, _count in {"quick": 10, USUAL: 25, "nightly": 2000}.items():
    settings.register_profile(_name, settings.default, max_examples=_count, deadline=None)


def at_most(count: int) -> int:
    """Return how many random cases a test draws that draws its own: `count` in `nightly`, else what the profile takes.

    The profile must be loaded: pytest loads it before it imports tests.
    """
    return min(count, round(count * settings().max_examples / 100))


def examples(count: int, **options: Any) -> settings:
    """Check a property with `count` examples, scaled by the profile, however long one of them takes."""
    share = settings().max_examples / 100
    return settings(max_examples=max(2, round(count * share)), deadline=None, **options)
