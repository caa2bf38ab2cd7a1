"""Families of samples: a name, a kind, a text, and a value for each set of labels.

The rules are those of OpenMetrics 1.0: a counter's samples end in `_total`, and a family with a unit ends in that unit.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Kind(enum.Enum):
    """The kind of a family's values.  COUNTER: it only grows, unless the log is replaced.  GAUGE: it may fall."""

    COUNTER = "counter"
    GAUGE = "gauge"


class Sample(NamedTuple):
    """A value, and the labels that tell it from the others of its family."""

    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Family:
    """Samples of one meaning.

    name: without the `_total` of a counter.  text: one line.
    unit: `bytes` or `seconds`, with which the name ends; empty if there is none.
    """

    name: str
    kind: Kind
    text: str
    unit: str = ""
    samples: list[Sample] = field(default_factory=list)

    @property
    def sample_name(self) -> str:
        """The name of the samples."""
        return f"{self.name}_total" if self.kind is Kind.COUNTER else self.name

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample, unless its value is unknown."""
        if value is not None:
            self.samples.append(Sample(labels, value))
