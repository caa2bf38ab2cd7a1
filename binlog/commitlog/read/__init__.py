"""Reading a store from any process: by offset, queue, topic, key or time, and as columns.

`store_reader` opens a store that another process may be writing, and makes the readers of queues and topics.  Nothing
here writes to the store.
"""
