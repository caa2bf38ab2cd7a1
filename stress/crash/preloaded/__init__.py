"""The preloaded libraries: a recorder of system calls, and an injector of faults."""
