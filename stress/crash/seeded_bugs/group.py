"""Seeded bugs of consumer groups."""

from __future__ import annotations

from stress.crash.seeded_bugs.seeded_bug import Change, SeededBug, bug_in_function

_MEMBER, _GROUP_LOG, _SOURCE, _SEATS, _ITEMS, _READER, _WAITING = (
    "binlog/consumers/members/member.py",
    "binlog/consumers/state/group_log.py",
    "binlog/consumers/members/message_source.py",
    "binlog/consumers/waking/seats.py",
    "binlog/consumers/members/own_items.py",
    "binlog/consumers/state/state_reader.py",
    "binlog/consumers/waking/waiting.py",
)

BUGS = (
    bug_in_function(
        "group-acks-not-synced", "group-power", "an acknowledgement returns before it is durable",
        _MEMBER, "Member.finish",
        "mode=self._mode",
        "mode=Mode.FLUSH",
    ),
    SeededBug(
        "group-window-not-durable", "group-power", "a message is named in the group's log before it is durable",
        (
            Change(_SOURCE, "LogOnDisk.make_durable", "if not self._is_durable(number, offset):", "if False:"),
            Change(_SOURCE, "LogOnDisk.make_durable", "return self._is_durable(number, offset)", "return True"),
        ),
    ),
    bug_in_function(
        "group-letter-number-not-durable", "group-power", "a dead letter is appended before its number is durable",
        _MEMBER, "Member._make_dead_letters",
        "self.log.sync()",
        "",
    ),
    bug_in_function(
        "group-checkpoint-not-synced", "group-power", "files are removed before the checkpoint after them is durable",
        _GROUP_LOG, "GroupLog._write_checkpoint",
        "mode=Mode.SYNC",
        "mode=Mode.FLUSH",
    ),
    bug_in_function(
        "group-floor-not-durable", "group-power", "messages are removed by acknowledgements that are not durable",
        "binlog/consumers/retention.py", "_durable_state",
        "durable_only=True",
        "durable_only=False",
    ),
    bug_in_function(
        "group-letter-after-its-end", "group-kill", "an item is done before its dead letter is appended",
        _MEMBER, "Member._make_dead_letter",
        "self._dead_letters.append(item, record, lambda: self._is_dying(letter, catches_up=True))\n"
        "self._submit([(Kind.DONE, [Delivery(letter.sequence, letter.delivery)])], mode=self._mode)",
        "self._submit([(Kind.DONE, [Delivery(letter.sequence, letter.delivery)])], mode=self._mode)\n"
        "self._dead_letters.append(item, record, lambda: True)",
    ),
    SeededBug(
        "group-living-buried", "group-kill", "the death of a member is recorded without the lock of its seat",
        (
            Change(_SEATS, "FifoSeats.is_free", "return not is_locked(fifo.fd)", "return True"),
            Change(
                _SEATS, "FifoSeats.take_dead",
                "if try_lock(fifo.fd):\n    return _FifoSeat(self, number, fifo)\nfifo.close()\nreturn None",
                "return _FifoSeat(self, number, fifo)",
            ),
        ),
    ),
    SeededBug(
        "group-start-not-counted", "group-kill", "a delivery is not counted when the item is handed out",
        (
            Change(
                _ITEMS, "OwnItems._add",
                "self._started if item[2] else self._assigned",
                "self._started",
            ),
            Change(
                _MEMBER, "Member._hand_out",
                "if not (counted := self._still_has(sequence, delivery)):",
                "if not (counted := self._still_has(sequence, delivery) or delivery + 1):",
            ),
        ),
    ),
    bug_in_function(
        "group-dead-not-buried", "group-kill", "a process that takes a dead member's seat does not record the death",
        "binlog/consumers/members/membership.py", "Membership._append_join",
        "self.release([(number, before.generation)])",
        "pass",
    ),
    bug_in_function(
        "group-letter-repeated", "group-kill", "a dead letter is appended again after a death",
        "binlog/consumers/members/letter_log.py", "DeadLetters._number",
        "last = log.last_letter(PRODUCER)",
        "last = log.last_letter(PRODUCER)\n"
        "return last.number + 1 if last is not None else item.letter",
    ),
    bug_in_function(
        "group-members-not-woken", "group-kill", "a member that gives an item back wakes no other",
        _WAITING, "Waiting.wake_for_items",
        "self._wakeups.wake(idle[: available + 1])",
        "pass",
    ),
    bug_in_function(
        "group-refusal-ignored", "group-faults", "an acknowledgement for which there is no space seems to be done",
        _MEMBER, "Member.finish",
        "outcome = self._submit(all_sections, want=want, flags=flags, mode=self._mode, epoch=epoch)",
        "try:\n"
        "    outcome = self._submit(all_sections, want=want, flags=flags, mode=self._mode, epoch=epoch)\n"
        "except Exception:\n"
        "    outcome = Outcome(True, [], [], [])",
    ),
    bug_in_function(
        "group-crc-ignored", "group-damage", "an operation counts though its CRC is wrong",
        _READER, "StateReader._apply_batch",
        "if not is_filler(self.path, ref, record):",
        "crc = crc32c(record[32:], crc32c(record[:28], self.seed))\n"
        "applied_anyway = self.state.apply(record[:28] + crc.to_bytes(4) + record[32:])\n"
        "if applied_anyway is None and not is_filler(self.path, ref, record):",
    ),
)  # fmt: skip
