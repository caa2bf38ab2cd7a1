"""The state of a consumer group according to marks, and the rules that its members and its state obey.

1. A message that was appended durably is acknowledged, a dead letter, or delivered after the crash.
2. A message that was acknowledged durably is not delivered again, unless an operator asked for it.
3. No process gets a message that a living one has, unless an operator took it from that one.
4. No delivery number of a message is used twice.  Only the last delivery can be acknowledged.
5. The end of an item is refused only if the process may have lost the item.
6. A message with a key is not delivered before all earlier ones with the key, as far as they were delivered, are done.
7. A dead letter exists once, and is not delivered again.  It was rejected, or delivered as often as it may be.
8. No message is delivered, or dead, that was never appended.

A process that died makes no more marks.  So rule 3 is checked when a process ends an item: no other may have got it
since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from stress.crash.marks import Values
from stress.crash.systems.group.actor import DELIVERIES_MAX, REJECTED
from stress.crash.systems.group.marks import ENDS, Identity, Mark, MarkKind, mark_of


class Letter(NamedTuple):
    """A dead letter.  reason: of its end.  deliveries: of its message by then."""

    message: Identity
    reason: str
    deliveries: int


_Delivery = tuple[int, Identity, int, int]
"""A delivery: the process, the message, the epoch and the number."""


def _delivery(mark: Mark) -> _Delivery:
    return mark.process, mark.message, mark.epoch, mark.delivery


@dataclass
class _Got:
    """A delivery.  is_ended: its process has tried to end it.  may_be_done: by an acknowledgement or a rejection."""

    mark: Mark
    is_ended: bool = False
    may_be_done: bool = False

    @property
    def process(self) -> int:
        """The process that has the message."""
        return self.mark.process

    @property
    def place(self) -> tuple[int, int]:
        """The order of the deliveries of a message."""
        return self.mark.epoch, self.mark.delivery


class _Ending(NamedTuple):
    """An attempt to end an item.  was_ack_tried: whether the message might have been done before."""

    mark: Mark
    was_ack_tried: bool


@dataclass
class Expectation:
    """See the module.

    tried, put, durable: messages that were to be appended; that were appended; and that a power cut leaves.
    ack_tried, ever_acked: messages that may be done; and that were done before a reset, too.
    acked: messages that are done, unless a power cut undoes it, and by whom.  gone: those that stay done.
    may_return: an operator may have asked for them since.
    rejected: messages that a process tried to reject.  letters_more: how often a message may be a dead letter again.
    resets: how often a process tried to reset the group.
    wrong: violations of the rules for members.  out_of_order: those of rule 6, by the earlier message.
    """

    tried: set[Identity] = field(default_factory=set)
    put: set[Identity] = field(default_factory=set)
    durable: set[Identity] = field(default_factory=set)
    ack_tried: set[Identity] = field(default_factory=set)
    ever_acked: set[Identity] = field(default_factory=set)
    acked: dict[Identity, int] = field(default_factory=dict)
    gone: set[Identity] = field(default_factory=set)
    may_return: set[Identity] = field(default_factory=set)
    rejected: set[Identity] = field(default_factory=set)
    letters_more: Counter[Identity] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    out_of_order: list[tuple[Identity, str]] = field(default_factory=list)
    resets: int = 0
    _has_died: bool = False
    _wrong_without_power_cut: list[str] = field(default_factory=list)
    _last: dict[Identity, _Got] = field(default_factory=dict)
    _got: dict[_Delivery, _Got] = field(default_factory=dict)
    _deliveries: set[tuple[Identity, int, int]] = field(default_factory=set)
    _ending: dict[_Delivery, _Ending] = field(default_factory=dict)
    _unsure: set[_Delivery] = field(default_factory=set)
    _processes: dict[int, int] = field(default_factory=dict)
    _asking: set[tuple[int, Identity]] = field(default_factory=set)
    _released: set[int] = field(default_factory=set)
    _acked_since_reset: dict[int, set[Identity]] = field(default_factory=dict)

    def add(self, values: Values) -> None:
        """Add one mark."""
        mark = mark_of(values)
        message = mark.message
        match mark.kind:
            case MarkKind.OPENED:
                self._processes[mark.delivery] = mark.process
            case MarkKind.PUT_TRIED:
                self.tried.add(message)
                if self._acked_since_reset:  # it may be a dead letter before a reset that has begun, and after it
                    self.letters_more[message] += len(self._acked_since_reset)
            case MarkKind.PUT_REFUSED:
                self.tried.discard(message)
            case MarkKind.PUT_DONE:
                (self.durable if mark.durable else self.put).add(message)
            case MarkKind.PUTS_SYNCED:
                self.durable |= {each for each in self.put if each.process == mark.process}
            case MarkKind.GOT:
                self._get(mark)
            case MarkKind.END_REFUSED:
                self._refuse(mark)
            case MarkKind.ENDED:
                self._end(mark)
            case MarkKind.LOST:
                self._lose(mark)
            case MarkKind.CLOSED:
                self.gone.update(each for each, process_number in self.acked.items() if process_number == mark.process)
            case MarkKind.RELEASE_TRIED:
                self._released.add(self._processes.get(mark.delivery, 0))
            case MarkKind.RESET_TRIED:
                self._try_reset(mark)
            case MarkKind.RESET_DONE:
                self.ack_tried = self._acked_since_reset.pop(mark.process)
            case MarkKind.AGAIN_TRIED:
                self.letters_more[message] += 1
                self._asking.add((mark.process, message))
                self._let_return({message})
            case MarkKind.AGAIN_DONE:
                self._asking.discard((mark.process, message))
            case MarkKind.POWER_CUT:
                self._lose_power()
            case _:
                self._try_to_end(mark)

    def died(self) -> None:
        """Promise every call that returned."""
        self.durable |= self.put
        self.gone.update(self.acked)
        self.wrong += self._wrong_without_power_cut
        self._has_died = True

    @property
    def promised(self) -> int:
        """The number of promised messages and acknowledgements."""
        return len(self.durable) + len(self.gone)

    # --- what processes do with items

    def _get(self, mark: Mark) -> None:
        message, who = mark.message, f"process {mark.process}"
        what = f"{message}, delivery {mark.delivery} of epoch {mark.epoch},"
        if message not in self.tried:
            self.wrong.append(f"{what} was given to {who}, but was never appended")
        got, last = _Got(mark), self._last.get(message)
        # An operator may have released the process, or reset the group, after it got the item and before its mark.
        may_be_late = mark.process in self._released or mark.epoch < self.resets
        is_late = may_be_late and last is not None and got.place < last.place
        if message in self.gone and not is_late:
            self.wrong.append(f"{what} was given to {who} after it was acknowledged durably")
        elif message in self.acked and not is_late:
            self._wrong_without_power_cut.append(f"{what} was given to {who} after it was acknowledged")
        delivery = (message, mark.epoch, mark.delivery)
        if delivery in self._deliveries:
            self._wrong_without_power_cut.append(f"{what} was given to {who}, and was given to another one before")
        self._deliveries.add(delivery)
        if last and last.process == mark.process and not last.is_ended and not self._may_lose(last):
            self.wrong.append(f"{what} was given to {who}, which has it already")
        if message.key is not None and not is_late:
            self._check_order(got)
        if last is None or last.place < got.place:
            self._last[message] = got
        self._got[_delivery(mark)] = got
        if mark.epoch >= self.resets and all(asked_for != message for _, asked_for in self._asking):
            self.may_return.discard(message)  # it has returned

    def _check_order(self, got: _Got) -> None:
        """Note a violation of rule 6."""
        mark = got.mark
        for other, last in self._last.items():
            if other.key != mark.message.key or last.may_be_done or self._may_lose(last):
                continue
            if last.mark.epoch == mark.epoch and last.mark.sequence < mark.sequence:
                text = f"{mark.message} was given to process {mark.process} before {other} with its key was done"
                self.out_of_order.append((other, text))

    def _may_lose(self, got: _Got) -> bool:
        """Whether an operator may have taken an item from its process."""
        is_asked_for = got.mark.message in self.may_return
        return is_asked_for or got.process in self._released or got.mark.epoch < self.resets

    def _try_to_end(self, mark: Mark) -> None:
        assert mark.kind in ENDS
        message, this = mark.message, _delivery(mark)
        got = self._got.get(this)
        if got is None:
            self.wrong.append(f"process {mark.process} ends {message}, which it does not have")
            got = self._got[this] = _Got(mark)
        last = self._last.get(message, got)
        if this in self._ending:
            self._unsure.add(this)
        if last.place > got.place and this not in self._unsure and not self._may_lose(got):
            text = f"{message} was given to process {last.process} while process {mark.process} had it"
            self._wrong_without_power_cut.append(text)
        got.is_ended = True
        self._ending[this] = _Ending(mark, message in self.ack_tried)
        if mark.kind is MarkKind.ACK_TRIED:
            got.may_be_done = True
            self.ack_tried.add(message)
            self.ever_acked.add(message)
            for acked in self._acked_since_reset.values():
                acked.add(message)
        elif mark.kind is MarkKind.REJECT_TRIED:
            got.may_be_done = True
            self.rejected.add(message)

    def _refuse(self, mark: Mark) -> None:
        """An error said that nothing was done."""
        ending = self._outcome(mark)
        if ending is not None:
            if ending.mark.kind is MarkKind.ACK_TRIED and not ending.was_ack_tried:
                self.ack_tried.discard(mark.message)
            self._got[_delivery(mark)].is_ended = False

    def _outcome(self, mark: Mark) -> _Ending | None:
        """Return the attempt to end an item whose outcome this is; None if two threads ended the same delivery."""
        ending = self._ending.pop(_delivery(mark), None)
        if ending is None:
            self.wrong.append(
                f"process {mark.process} ended delivery {mark.delivery} of {mark.message} twice at a time"
            )
        return ending

    def _end(self, mark: Mark) -> None:
        message = mark.message
        ending = self._outcome(mark)
        if ending is None or ending.mark.kind is not MarkKind.ACK_TRIED:
            return
        if message in self.may_return or mark.epoch < self.resets:
            return
        self.acked[message] = mark.process
        if mark.durable:
            self.gone.add(message)

    def _lose(self, mark: Mark) -> None:
        this = _delivery(mark)
        if self._outcome(mark) is not None and not self._may_lose(self._got[this]) and this not in self._unsure:
            text = f"process {mark.process} had {mark.message}, delivery {mark.delivery}, and could not end it"
            self._wrong_without_power_cut.append(text)

    # --- operators, and the power

    def _try_reset(self, mark: Mark) -> None:
        """Any message may be delivered again.  One that was to be a dead letter may be one once more."""
        self.resets += 1
        self.letters_more.update(self.tried)
        self._acked_since_reset[mark.process] = set()
        self._let_return(set(self.tried))

    def _let_return(self, messages: set[Identity]) -> None:
        self.gone -= messages
        for message in messages:
            self.acked.pop(message, None)
        self.may_return |= messages

    def _lose_power(self) -> None:
        """What was not durable may be lost: starts of deliveries, and acknowledgements."""
        self.acked = {message: process_number for message, process_number in self.acked.items() if message in self.gone}
        self.put &= self.durable
        self._wrong_without_power_cut.clear()
        self.out_of_order.clear()
        for each in (self._last, self._got, self._deliveries, self._ending):
            each.clear()

    # --- the state after a crash

    def lost(self, delivered: set[Identity], dead: set[Identity], in_log: set[Identity]) -> Iterator[str]:
        """Yield the durable messages that are missing.  in_log: the messages that retention has left."""
        for message in sorted(self.durable - self.ack_tried - delivered - dead):
            # A reset makes messages new again, but not those that retention removed.
            if message in in_log or message not in self.ever_acked:
                yield f"{message} was appended durably, but is neither delivered nor a dead letter"

    def returned(self, delivered: set[Identity], dead: set[Identity]) -> Iterator[str]:
        """Yield the messages that should not have come again."""
        for message in sorted(self.gone & delivered):
            yield f"{message} was acknowledged durably, but was delivered again"
        for message in sorted((self.gone & dead) - set(self.letters_more)):
            yield f"{message} was acknowledged durably, but is a dead letter"
        for message in sorted((delivered & dead) - set(self.letters_more)):
            yield f"{message} is a dead letter, but was delivered again"
        if self._has_died:
            yield from (text for earlier, text in self.out_of_order if earlier not in dead)

    def invented(self, letters: list[Letter], delivered: set[Identity]) -> Iterator[str]:
        """Yield the messages, and dead letters, that have no cause."""
        for message in sorted(({each.message for each in letters} | delivered) - self.tried):
            yield f"{message} exists, but was never appended"
        for message, count in sorted(Counter(each.message for each in letters).items()):
            if count > 1 + self.letters_more[message]:
                yield f"{message} is {count} dead letters"
        for letter in letters:
            if letter.reason == REJECTED:
                if letter.message not in self.rejected:
                    yield f"{letter.message} is a dead letter, but no process rejected it"
            elif letter.deliveries < DELIVERIES_MAX:
                yield f"{letter.message} is a dead letter ({letter.reason}) after {letter.deliveries} deliveries"
