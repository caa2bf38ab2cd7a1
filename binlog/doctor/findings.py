"""Finding: the result of one part of an examination."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    """The meaning of a finding for a log.

    SLOW: everything works, but slower.  DOUBTFUL: a promise may not hold, or could not be tried.  REFUSED: binlog, or
    some operation of it, does not work.
    """

    OK = "ok"
    SLOW = "slow"
    DOUBTFUL = "doubtful"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact about the machine or the directory.

    area: a heading: "machine", "directory", "shared memory", "installation" or "log".  value: the fact.
    reason: why it is not ok.  remedy: how to mend it.  Both may be empty.
    """

    area: str
    subject: str
    verdict: Verdict
    value: str
    reason: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Examination:
    """All findings about a directory, in the order in which they were made."""

    path: str
    findings: tuple[Finding, ...]

    @property
    def is_refused(self) -> bool:
        """Whether a finding is REFUSED."""
        return any(finding.verdict is Verdict.REFUSED for finding in self.findings)
