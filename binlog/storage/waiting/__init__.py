"""Waiting: the doorbell, its use by event loops and greenlets, and worker threads.

A reader waits on the `doorbell` of the open file, which each commit rings.  An event loop cannot wait there itself,
so the `bell_watcher` waits for it.
"""
