"""Messages that are parked before consumers get them: delayed, half, and retried ones.

A parked message is stored in a topic that RocketMQ reserves for it.  When it is due, or its transaction commits, it
is appended to its own topic.
"""
