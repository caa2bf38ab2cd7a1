"""Reading a store from any process: by offset, queue, topic, key or time, and as columns."""
