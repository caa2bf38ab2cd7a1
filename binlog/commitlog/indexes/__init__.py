"""The consume queues and the key index, and the thread that builds both from the commit log.

Everything in them can be built again from the log, so after a crash they are completed from it.
"""
