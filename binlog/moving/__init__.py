"""Moving records: from files of other programs into a log, from a log into such files, and closed files elsewhere.

`import_records` appends the records of a file, each once, however often it is killed and started again.
`export_records` writes records to a file of another format.  `ship` copies closed files to a directory or an object
store, where they can be read in place.  Each is the whole of a command of the same name: `importing/`, `exporting/` and
`shipping/` have their parts, and `remote_directory` the file systems that a URL names, also for Spark.
"""

from binlog.moving.exporting.exporting import Exported, ExportForm, export_records
from binlog.moving.importing.importing import Imported, ImportForm, import_records
from binlog.moving.shipping.receipts import Receipt
from binlog.moving.shipping.shipping import Shipped, follow, ship

__all__ = [
    "ExportForm",
    "Exported",
    "ImportForm",
    "Imported",
    "Receipt",
    "Shipped",
    "export_records",
    "follow",
    "import_records",
    "ship",
]
