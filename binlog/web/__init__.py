"""`binlog web`: logs in a browser, live.

Begin with `serving`, which listens and runs the server.  Each request first meets `access`: the token, the host and the
origin.  `application` has the routes, `actions` the changes of a group, and `static/` the page: plain HTML, CSS and
JavaScript.

A thread for each log (`watcher`) reads the state of the log once a second, and its new records.  It puts both in the
bounded buffer of each browser (`outbox`), from which `streams` sends them as server-sent events.  `shown` has the
interface that the caller passes in: it reads the state of a log, filters records, and chooses the parts to show.  The
command line has all of that for `binlog monitor` and `binlog tail`.
"""

from binlog.web.access import TOKEN_LENGTH_MIN, AccessRules, check_token
from binlog.web.serving import Address, Settings, serve
from binlog.web.shown import FoundRows, JsonObject, Query, Row, ShownLog

__all__ = [
    "TOKEN_LENGTH_MIN",
    "AccessRules",
    "Address",
    "FoundRows",
    "JsonObject",
    "Query",
    "Row",
    "Settings",
    "ShownLog",
    "check_token",
    "serve",
]
