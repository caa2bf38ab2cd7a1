"""The journal: records that are added, updated and deleted by their ids, one by one or in transactions.

Its files are used again and again, as those of JBoss Messaging's circular journal.
"""

from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind as RecordKind
from binlog.journal.check import check_journal
from binlog.journal.column_reader import JournalColumns, PartReader
from binlog.journal.export import ExportHead, ExportReader, export_lines, record_object
from binlog.journal.importing import Imported, import_journal
from binlog.journal.journal import Journal
from binlog.journal.ledger import Kept
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record import Deleted, Loaded, Record, TransactionContent
from binlog.journal.record_reader import JournalRecords, StoredRecord, read_records
from binlog.journal.record_states import RecordState
from binlog.journal.stat import JournalFileStat, JournalStat, stat_journal
from binlog.journal.survey import FilePart, FileSurvey, JournalSurvey, survey_journal

__all__ = [
    "Deleted",
    "ExportHead",
    "ExportReader",
    "FilePart",
    "FileSurvey",
    "Imported",
    "Journal",
    "JournalColumns",
    "JournalFileStat",
    "JournalLayout",
    "JournalOptions",
    "JournalRecords",
    "JournalStat",
    "JournalSurvey",
    "Kept",
    "Loaded",
    "PartReader",
    "Record",
    "RecordKind",
    "RecordState",
    "StoredRecord",
    "Sync",
    "TransactionContent",
    "check_journal",
    "export_lines",
    "import_journal",
    "read_records",
    "record_object",
    "stat_journal",
    "survey_journal",
]
