"""The command that examines the machine: `binlog doctor`.

`doctor` prints the findings of binlog.doctor about the machine and a directory: what is slow or refused, why, and how
to mend it.
"""
