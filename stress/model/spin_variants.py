"""The searched variants: the correct model within several bounds, then with one seeded bug after another.

A name in capitals is a bug, and an #if of that name in the model.  The bounds are explained in the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Finding = Literal["assertion violated", "invalid end state", "acceptance cycle"]
WRONG: Finding = "assertion violated"
STUCK: Finding = "invalid end state"
ENDLESS: Finding = "acceptance cycle"


@dataclass(frozen=True)
class Variant:
    """One search.  `bounds` as in "WRITERS=3 DEATHS=1"; `finds`: the expected finding, None for none."""

    name: str
    says: str
    bounds: str
    finds: Finding | None = None
    large: bool = False  # millions of states, so that compiling an optimised search pays off

    @property
    def settings(self) -> list[str]:
        """The bounds, and the name of the bug."""
        return self.bounds.split() + ([f"{self.name}=1"] if self.name.isupper() else [])

    def is_right(self, found: str | None) -> bool:
        """Return whether the finding is the expected one."""
        return found is None if self.finds is None else found is not None and found.startswith(self.finds)

    @property
    def looks_for_cycles(self) -> bool:
        """Whether the search checks that all processes return in the end, rather than that no state is wrong."""
        return "LIVENESS=1" in self.settings


RIGHT_QUICK = (
    Variant("waiting", "no wake-up is lost if no process dies", "DIRECT_RECORDS=1 GROUP_MAX=1 TIMEOUTS=0"),
    Variant("dying", "any process dies at any step", "RECORDS=2 DEATHS=1"),
    Variant(
        "withdrawing",
        "a deputy times out, and no wake-up is lost",
        "DIRECT_RECORDS=1 GROUP_MAX=1 LIMITS=2 TIMEOUTS=0",
    ),
)

RIGHT = (
    Variant("three waiting", "no wake-up is lost", "WRITERS=3 GROUP_MAX=1 TIMEOUTS=0", large=True),
    Variant("more waiting", "... with more records", "RECORDS=2 DIRECT_RECORDS=2 TIMEOUTS=0", large=True),
    Variant("three dying", "any process dies at any step", "WRITERS=3 DEATHS=1", large=True),
    Variant("two deaths", "one after the other", "DIRECT_RECORDS=2 DEATHS=2", large=True),
    Variant(
        "failing",
        "a sync and the disk's space fail, and waiters give up",
        "DIRECT_RECORDS=1 DEATHS=1 SYNC_ERRORS=1 DISK_FULLS=1 GIVING_UP=1",
        large=True,
    ),
    Variant("three withdrawing", "no wake-up is lost", "WRITERS=3 LIMITS=2 TIMEOUTS=0", large=True),
    Variant(
        "withdrawing and dying",
        "a deputy times out, and any process dies at any step",
        "DIRECT_RECORDS=1 DEATHS=1 LIMITS=1 GIVING_UP=1",
        large=True,
    ),
    Variant("foreign", "another program appends", "DIRECT_RECORDS=2 FOREIGN_RECORDS=1 DEATHS=1", large=True),
    Variant("returning", "a process dies, and all others return", "DEATHS=1 LIVENESS=1"),
    Variant("withdrawing, returning", "... and deputies withdraw", "DEATHS=1 LIMITS=1 LIVENESS=1"),
    Variant(
        "stopped",
        "a deputy is stopped, and the others return",
        "DEATHS=1 VICTIM=deputy DEATH_WHEN=file_lock!=deputy STOPPED=1 LIVENESS=1",
    ),
    Variant("more returning", "... with a direct writer", "DIRECT_RECORDS=1 DEATHS=1 LIVENESS=1", large=True),
)

BUGS_QUICK = (
    Variant(
        "no time-out, deputy dies",
        "no process checks again",
        "DIRECT_RECORDS=1 DEATHS=1 VICTIM=deputy TIMEOUTS=0",
        STUCK,
    ),
    Variant("SYNC_RETRIED", "the second result is trusted", "SYNC_ERRORS=1", WRONG),
    Variant(
        "WITHDRAWN_SILENTLY",
        "no process leads for those that relied on it",
        "DIRECT_RECORDS=1 LIMITS=1 TIMEOUTS=0",
        STUCK,
    ),
)

BUGS = (
    # waiting
    Variant(
        "no time-out, leader dies",
        "no process checks again",
        "DIRECT_RECORDS=1 DEATHS=1 VICTIM=file_lock DEATH_WHEN=note_state==SLOTTED TIMEOUTS=0",
        STUCK,
    ),
    Variant(
        "WORD_READ_AFTER_TRYING",
        "for the locks: woken meanwhile, it sleeps anyway",
        "RECORDS=2 DIRECT_RECORDS=1 GROUP_MAX=1 TIMEOUTS=0",
        STUCK,
    ),
    Variant("NO_DEPUTY", "all sleep while another program leads", "FOREIGN_RECORDS=1 TIMEOUTS=0", STUCK),
    Variant("PASSED_ON_SILENTLY", "no process leads for those that relied on it", "WRITERS=3 TIMEOUTS=0", STUCK),
    Variant(
        "DEPUTY_WAITED_FOR",
        "though it is stopped",
        "DEATHS=1 VICTIM=deputy DEATH_WHEN=file_lock!=deputy STOPPED=1 LIVENESS=1",
        ENDLESS,
    ),
    Variant("LOCK_LEFT_BY_CANCELLED", "its thread got it", "DIRECT_RECORDS=1 LIMITS=1 TIMEOUTS=0", STUCK),
    Variant("HINT_LEFT_BY_WITHDRAWN", "so that all sleep", "DIRECT_RECORDS=1 LIMITS=1 TIMEOUTS=0", STUCK),
    Variant("DEPUTY_LEFT_BY_WITHDRAWN", "its byte, too", "DIRECT_RECORDS=1 LIMITS=1 TIMEOUTS=0", STUCK),
    Variant("HINT_BELIEVED", "of a deputy that died", "DEATHS=1 LIVENESS=1", ENDLESS),
    Variant("DEPUTY_KEPT", "the deputy's byte, while it leads", "WRITERS=3 TIMEOUTS=0", STUCK),
    Variant("DEPUTY_PROBED_BY_LOCKING", "a probe passes for a deputy", "WRITERS=3 TIMEOUTS=0", STUCK),
    Variant("NOT_LOOKED_AGAIN", "after unlocking", "WRITERS=3 GROUP_MAX=1 TIMEOUTS=0", STUCK),
    Variant("WOKEN_WITHOUT_RAISING", "the word stays", "WRITERS=3 TIMEOUTS=0", STUCK),
    Variant("WORD_READ_AFTER_LOOKING", "at the entry", "WRITERS=3 TIMEOUTS=0", STUCK),
    Variant("NO_FENCE", "staged, but not seen before the sleep", "WRITERS=3 TIMEOUTS=0", STUCK),
    # taking, marking, withdrawing
    Variant("TAKEN_BLINDLY", "without compare-and-swap", "DIRECT_RECORDS=1 GIVING_UP=1", WRONG),
    Variant("WITHDRAWN_BLINDLY", "without compare-and-swap", "DIRECT_RECORDS=1 GIVING_UP=1", WRONG),
    Variant("MARKED_BLINDLY", "whatever its state by then", "RECORDS=2 DEATHS=1", WRONG),
    Variant("MARKED_BEFORE_SYNC", "acknowledged too early", "", WRONG),
    Variant("MARKED_AFTER_UNLOCK", "another may have taken it", "RECORDS=2 SYNC_ERRORS=1", WRONG),
    # the leader's note
    Variant("ORPHANS_LEFT", "taken by a leader that died before its note", "DEATHS=1 LIVENESS=1", ENDLESS),
    Variant("RESOLVED_BEFORE_ROLLING", "a dead leader's note, before its slot", "DEATHS=1", WRONG),
    Variant("RESOLVED_AFTER_GATHERING", "its own entries for a dead one's", "", WRONG),
    Variant("REQUEUE_FORGOTTEN", "entries of a note are never written", "DEATHS=1 LIVENESS=1", ENDLESS),
    Variant("NOTE_STATE_FIRST", "with the fields of an older note", "RECORDS=2 DEATHS=1", WRONG),
    Variant("NOTE_CLEARED_EARLY", "before the entries are marked", "DEATHS=1", WRONG),
    Variant(
        "SLOTTED_EARLY",
        "before the slot is written",
        "DIRECT_RECORDS=3 DEATHS=1 VICTIM=file_lock DEATH_WHEN=note_state==SLOTTED",
        WRONG,
    ),
    Variant("NONCE_IGNORED", "another's commit is taken for one's own", "DIRECT_RECORDS=1 DEATHS=1", WRONG),
    Variant(
        "OVERTAKEN_QUEUED_AGAIN",
        "though the outcome is unknown",
        "DIRECT_RECORDS=2 DEATHS=1 VICTIM=file_lock DEATH_WHEN=note_state==PREPARED",
        WRONG,
    ),
    Variant(
        "OVERTAKEN_ACKNOWLEDGED",
        "though the outcome is unknown",
        "DIRECT_RECORDS=3 DEATHS=1 VICTIM=file_lock DEATH_WHEN=note_state==PREPARED",
        WRONG,
    ),
    Variant(
        "SLOTTED_TRUSTED_WHEN_MIXED",
        "another program wrote over it",
        "DIRECT_RECORDS=2 FOREIGN_RECORDS=1 DEATHS=1 VICTIM=file_lock DEATH_WHEN=note_state==SLOTTED",
        WRONG,
        large=True,
    ),
    # the file
    Variant(
        "PENDING_DISCARDED",
        "a slot that holds",
        "DIRECT_RECORDS=3 DEATHS=1 VICTIM=file_lock DEATH_WHEN=note_state==SLOTTED",
        WRONG,
    ),
    Variant("ROLLED_UNWRITTEN", "the bytes are not written again", "DEATHS=1 SYNC_ERRORS=1", WRONG),
    Variant("ROLLED_UNCHECKED", "the group's CRC", "DEATHS=1 SYNC_ERRORS=1", WRONG),
    Variant("ROLLED_UNDER_OWN_NONCE", "the note no longer finds it", "DEATHS=1", WRONG),
    Variant("POISON_UNWRITTEN", "after a failed sync others continue", "SYNC_ERRORS=1", WRONG),
    Variant("FOREIGN_TAIL_IGNORED", "written over", "FOREIGN_RECORDS=1", WRONG),
)
