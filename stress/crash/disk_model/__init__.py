"""Models of a disk: the states that a power cut may leave, and the disk after a failed sync."""
