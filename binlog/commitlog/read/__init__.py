"""Reading a store from any process: by queue, by key, by time, in the order of the log, or as columns."""
