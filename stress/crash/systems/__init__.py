"""The systems that are broken: what each does, marks, and must be after a crash, behind `stress.crash.system`."""
