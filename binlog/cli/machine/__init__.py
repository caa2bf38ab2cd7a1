"""The command that examines the machine: `binlog doctor`.

`doctor` prints the findings of binlog.doctor about the machine and a directory: parts that are slow or refused, the
reason, and how to mend them.
"""
