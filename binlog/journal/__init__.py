"""The journal: records that are added, updated and deleted by their ids, one by one or in transactions.

Its files are used again and again, as those of JBoss Messaging's circular journal.
"""

from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind as RecordKind
from binlog.journal.column_reader import JournalColumns, PartReader
from binlog.journal.record_states import RecordState
from binlog.journal.survey import FilePart, FileSurvey, JournalSurvey, survey_journal

__all__ = [
    "FilePart",
    "FileSurvey",
    "JournalColumns",
    "JournalLayout",
    "JournalSurvey",
    "PartReader",
    "RecordKind",
    "RecordState",
    "survey_journal",
]
