"""The commit log: messages with topics, queues, tags, keys and times, in the files of Apache RocketMQ's store."""
