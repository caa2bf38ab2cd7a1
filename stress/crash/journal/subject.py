"""A journal, as the power part knows it."""

from __future__ import annotations

from stress.crash.journal.judge import JournalJudging
from stress.crash.journal.workloads import WORKLOADS
from stress.crash.subject import Subject

_CHOICES_MAX = 10  # of each of some hundred moments of a run

JOURNALS = Subject("journal-power", WORKLOADS, {}, JournalJudging, _CHOICES_MAX)
