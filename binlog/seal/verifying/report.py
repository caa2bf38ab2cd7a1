"""Report: the findings of a verification."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from binlog.format.record import Ref
from binlog.format.seal.statement import Statement


class Rule(enum.StrEnum):
    """The kinds of findings."""

    CHANGED = "changed"  # records differ from the sealed ones
    CUT = "cut"  # records are missing at the end
    FORK = "fork"  # two roots for one size, or a root that these records do not give
    MISSING = "missing"  # records or statements are missing, and no statement explains it
    NOT_SEALED = "not-sealed"  # the seal, or a part of it, does not exist
    UNSEALED = "unsealed"  # records are not sealed although they are old, or were added after the log's end
    STALE = "stale"  # the newest checkpoint is too old
    KEY = "key"  # a note is not signed by the key, or not by the witnesses that a policy demands
    INDEX_TIME = "index-time"  # an index has times that contradict the signed ones
    LATE = "late"  # records were added to a file after the next one was begun, and no statement explains it
    DAMAGED = "damaged"  # the log or the seal cannot be read


@dataclass(frozen=True)
class Finding:
    """Something that is wrong.  ref, leaf: of the first record that it is about, if it is about records."""

    rule: Rule
    text: str
    ref: Ref | None = None
    leaf: int | None = None

    def __str__(self) -> str:
        place = (
            "" if self.ref is None else f"{self.ref} (leaf {self.leaf}): " if self.leaf is not None else f"{self.ref}: "
        )
        return f"{self.rule}: {place}{self.text}"


@dataclass
class Report:
    """The result of a verification.

    origin: of the log.  size: records that the newest checkpoint covers.  verified: of them, those that were compared.
    unsealed: records after them.  statements: all that are about the log.
    findings: empty if nothing is wrong.
    """

    origin: str
    size: int = 0
    verified: int = 0
    unsealed: int = 0
    statements: list[Statement] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def add(self, rule: Rule, text: str, ref: Ref | None = None, leaf: int | None = None) -> None:
        """Add a finding."""
        self.findings.append(Finding(rule, text, ref, leaf))
