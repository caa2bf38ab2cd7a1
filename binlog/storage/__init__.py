"""Every system call the log and the engines make: files, locks, the doorbell, sync.  Knows nothing of records."""
