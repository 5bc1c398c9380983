"""How many random examples a property is tried with, which the profile of hypothesis scales.

HYPOTHESIS_PROFILE=quick tries a fifth of them, nightly twenty times as many; so does pytest --hypothesis-profile.
"""

from typing import Any

from hypothesis import settings

for _name, _count in {"quick": 20, "nightly": 2000}.items():
    settings.register_profile(_name, settings.default, max_examples=_count, deadline=None)


def examples(count: int, **options: Any) -> settings:
    """Try a property with so many examples in the default profile, however long one of them takes."""
    share = settings().max_examples / 100
    return settings(max_examples=max(2, round(count * share)), deadline=None, **options)
