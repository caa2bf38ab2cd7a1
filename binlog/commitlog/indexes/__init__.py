"""The consume queues and the key index, and the thread that builds both from the commit log."""
