"""Logging into a log: a handler for the standard library's `logging`, and events.

`Handler` (handler.py) formats a record, and gives the bytes to `Delivery` (delivery.py), which appends them within a
time limit and by a policy.  `JsonFormatter` makes an event of a record: events.py has the schema, and rendering.py
makes text and JSON of any value.  Records that are too long are cut by truncation.py.  docs/logging.md is for users.
"""

from binlog.logging.delivery import Counters, Full
from binlog.logging.handler import MODES, Handler
from binlog.logging.json_formatter import JsonFormatter

__all__ = ["MODES", "Counters", "Full", "Handler", "JsonFormatter"]
