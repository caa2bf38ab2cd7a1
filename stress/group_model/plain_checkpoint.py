"""Checkpoints of a plain state, to compare those of the compiled state with."""

from __future__ import annotations

import struct
from dataclasses import astuple
from typing import Any

from binlog.consumers.state.group_state import ItemState
from binlog.consumers.state.settings import Settings
from binlog.format.consumers.group_layouts import (
    CHECKPOINT_ITEM,
    CHECKPOINT_MEMBER,
    CHECKPOINT_STATE,
    GROUP_MESSAGE,
    GROUP_SEAT,
    GROUP_SETTING,
)
from binlog.format.consumers.operation import Clock, MessageFacts
from stress.group_model.plain_items import Item, Seat
from stress.group_model.plain_state import Counters, PlainState

_STATE, _MEMBER, _ITEM, _FACTS, _SETTING, _GENERATION = (
    struct.Struct(layout.format)
    for layout in (CHECKPOINT_STATE, CHECKPOINT_MEMBER, CHECKPOINT_ITEM, GROUP_MESSAGE, GROUP_SETTING, GROUP_SEAT)
)
_PAUSED, _DELETED, _TOOK_NEW = 1, 2, 4
_COUNTER_COUNT = len(astuple(Counters()))


def pack_state(state: PlainState) -> bytes:
    """Return the state as bytes."""
    facts, settings = state.facts(), state.settings.as_values()
    boot, offset_ns = state.clock or (bytes(16), 0)
    (number, offset), crc = state.witness or ((0, 0), 0)
    flags = state.is_paused * _PAUSED + state.is_deleted * _DELETED + state.took_new * _TOOK_NEW
    head = _STATE.pack(
        state.epoch, state.clock_ns, state.clock is not None, boot, offset_ns, state.next, state.known_end,
        state.witness is not None, number, offset, crc, flags, state.letters, *astuple(state.counters),
        len(settings), len(state.seats), len(state.generations), len(state.items), len(facts),
    )  # fmt: skip
    return b"".join(
        (
            head,
            *(_SETTING.pack(*each) for each in sorted(settings.items())),
            *(_pack_member(number, seat) for number, seat in sorted(state.seats.items())),
            *(_GENERATION.pack(*each) for each in sorted(state.generations.items())),
            *(_pack_item(state.items[sequence]) for sequence in sorted(state.items)),
            *(_FACTS.pack(*each) for each in facts),
        )
    )


def parse_state(data: bytes) -> PlainState:
    """Return the state that `pack_state` made bytes of.  Raises: ValueError."""
    try:
        return _Parser(data).state()
    except (struct.error, KeyError) as error:
        raise ValueError(f"it is no checkpoint ({error})") from error


def _pack_member(number: int, seat: Seat) -> bytes:
    hint = seat.hint.encode()
    return _MEMBER.pack(number, seat.generation, seat.lease_ns, len(hint)) + hint


def _pack_item(item: Item) -> bytes:
    reason = item.reason.encode()
    packed = _ITEM.pack(
        item.sequence, item.state, item.is_suspect, item.seat, item.delivery, item.uncounted, item.deaths, item.letter,
        item.key_hash, item.expiry_ns, item.due_ns, len(reason),
    )  # fmt: skip
    return packed + reason


class _Parser:
    """Reads a checkpoint from its start.  Raises: struct.error at its end, ValueError."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def state(self) -> PlainState:
        """Return the state."""
        values = self._take(_STATE)
        (epoch, clock_ns, has_clock, boot, offset_ns, next_, known_end, has_witness, number, offset, crc, flags,
         letters) = values[:13]  # fmt: skip
        setting_count, seat_count, generation_count, item_count, fact_count = values[13 + _COUNTER_COUNT :]
        state = PlainState()
        state.is_created = True
        state.epoch, state.clock_ns, state.next, state.known_end = epoch, clock_ns, next_, known_end
        state.clock = Clock(boot, offset_ns) if has_clock else None
        state.witness = ((number, offset), crc) if has_witness else None
        state.is_paused, state.is_deleted = bool(flags & _PAUSED), bool(flags & _DELETED)
        state.letters, state.counters = letters, Counters(*values[13 : 13 + _COUNTER_COUNT])
        state.settings = Settings().changed(dict(self._take(_SETTING) for _ in range(setting_count)))
        state.seats.update(self._member() for _ in range(seat_count))
        state.generations = dict(self._take(_GENERATION) for _ in range(generation_count))
        items = [self._item() for _ in range(item_count)]
        facts = [MessageFacts(*self._take(_FACTS)) for _ in range(fact_count)]
        if self._at != len(self._data):
            raise ValueError(f"it has {len(self._data)} bytes, and its counts say {self._at}")
        state.restore(items, facts, took_new=bool(flags & _TOOK_NEW))
        return state

    def _member(self) -> tuple[int, Seat]:
        number, generation, lease_ns, size = self._take(_MEMBER)
        return number, Seat(generation, self._text(size), lease_ns)

    def _item(self) -> Item:
        sequence, state, suspect, seat, delivery, uncounted, deaths, letter, key, expiry, due, size = self._take(_ITEM)
        return Item(
            sequence, ItemState(state), key, expiry, due, seat, delivery, uncounted, deaths, bool(suspect), letter,
            self._text(size),
        )  # fmt: skip

    def _text(self, size: int) -> str:
        found = self._data[self._at : self._at + size]
        if len(found) != size:
            raise struct.error("a text is too short")
        self._at += size
        return found.decode()

    def _take(self, layout: struct.Struct) -> tuple[Any, ...]:
        values = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return values
