"""binlog: a durable log that many processes share through a directory, without a server."""

from . import errors
from .format.ref import Ref
from .log.batch import Batch, Entry
from .log.check import Problem, check
from .log.cursor import Start
from .log.reader import Reader
from .log.stat import FileStat, LogStat, stat
from .log.writer import Writer
from .storage.files import FileSystem

__version__ = "0.1.0"

__all__ = [
    "Batch",
    "Entry",
    "FileStat",
    "FileSystem",
    "LogStat",
    "Problem",
    "Reader",
    "Ref",
    "Start",
    "Writer",
    "check",
    "errors",
    "stat",
]
