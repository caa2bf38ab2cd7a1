"""Interchange with the real store of Apache RocketMQ: see README.md."""
