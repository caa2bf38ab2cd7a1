"""The layouts of a commit log's store, which are Apache RocketMQ's; the tables give RocketMQ's field names.

`message` has the layout of a message and is the reference for `compiled`, which handles many messages at a time in C.
"""
