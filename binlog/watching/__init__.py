"""The state of a log for people and monitoring systems: its files, followers, consumer groups and seal at one moment.

Begin with `view_log`.  It reads the headers of the files, the position files, and the state of groups and seal; it
reads no record, except the lengths of up to 64 KiB of them for each follower.  `followers` finds the position files and
says how far each follower lags; `trends` remembers the lags of the last minute.  `binlog metrics`, `monitor`, `top`,
`web` and `stat` show this state.
"""

from binlog.watching.followers import POSITION_SUFFIX, FollowerStat, read_position, stat_followers
from binlog.watching.log_view import GroupView, LogView, SealView, view_groups, view_log, view_seal
from binlog.watching.trends import Trend, Trends, lags_of

__all__ = [
    "POSITION_SUFFIX",
    "FollowerStat",
    "GroupView",
    "LogView",
    "SealView",
    "Trend",
    "Trends",
    "lags_of",
    "read_position",
    "stat_followers",
    "view_groups",
    "view_log",
    "view_seal",
]
