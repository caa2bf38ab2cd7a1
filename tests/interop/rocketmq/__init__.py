"""Exchange of stores with the real Apache RocketMQ: see README.md."""
