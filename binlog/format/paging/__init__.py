"""What paging has on the disk: pages, acknowledgements of their messages, and whose they are."""
