"""The journal: records with ids that are added, updated and deleted, alone or in transactions.

Files are reused once all their records are dead, as in the circular journal of JBoss Messaging.
"""

from binlog.format.journal.file_header import JournalLayout
from binlog.format.journal.record import Kind as RecordKind
from binlog.journal.inspection.inspection import check_journal
from binlog.journal.inspection.record_reader import JournalRecords, StoredRecord, read_records
from binlog.journal.inspection.stat import JournalFileStat, JournalStat, stat_journal
from binlog.journal.inspection.survey import (
    FilePart,
    FileSurvey,
    JournalColumns,
    JournalSurvey,
    PartReader,
    survey_journal,
)
from binlog.journal.inspection.transfer import (
    ExportHead,
    ExportReader,
    Imported,
    export_lines,
    import_journal,
    record_object,
)
from binlog.journal.journal import Journal
from binlog.journal.ledger import FilePins
from binlog.journal.loading.record_states import RecordState
from binlog.journal.options import JournalOptions, Sync
from binlog.journal.record import Deleted, Loaded, Record, TransactionContent

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
    "FilePins",
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
