"""The number of examples of a property: fewer in `make quick`, more if a profile asks for more."""

from __future__ import annotations

from hypothesis import settings

_OF = 100


def examples(count: int) -> int:
    """Return this share of the profile's examples, in percent, at least 3.

    If `make test` (100 examples) tries `count`, `make quick` tries a part of them.
    """
    return max(3, count * settings.default.max_examples // _OF)
