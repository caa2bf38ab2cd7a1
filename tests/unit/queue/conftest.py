"""Fixtures of the tests of queues."""

from __future__ import annotations

from tests.support.queues import folder

__all__ = ["folder"]
