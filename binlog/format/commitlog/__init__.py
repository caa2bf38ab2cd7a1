"""The layouts of a commit log's store, which are Apache RocketMQ's; the tables give RocketMQ's field names."""
