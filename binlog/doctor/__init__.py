"""The examination of a machine and a directory: which parts are slow or refused, and how to mend them.

`examine` runs the parts in order and returns an `Examination` of `Finding`s.  `machine` examines the kernel, the clock,
the limits of the process, Python, the compiled modules and the extras.  `file_system` examines the kind of file system,
its operations, and how long its syncs take; `shared_memory` /dev/shm, and whether a process can wake another one; and
`log_state` the log itself, if the directory has one.  binlog.storage decides which file systems are refused, as for a
writer.
"""

from binlog.doctor.examination import examine
from binlog.doctor.findings import Examination, Finding, Verdict

__all__ = ["Examination", "Finding", "Verdict", "examine"]
