"""A store, as the power part knows it."""

from __future__ import annotations

from stress.crash.store.judge import StoreJudging
from stress.crash.store.workloads import WORKLOADS
from stress.crash.subject import Subject

_CHOICES_MAX = 10  # of each of some hundred moments of a run

STORES = Subject("store-power", WORKLOADS, {}, StoreJudging, _CHOICES_MAX)
