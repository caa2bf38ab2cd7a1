"""What a page store has on the disk: pages, the map of those that are free, and the log of its transactions."""
