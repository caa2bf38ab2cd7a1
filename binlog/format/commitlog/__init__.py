"""The bytes of a commit log's store: those of Apache RocketMQ's, whose field names stand in the tables' meanings."""
