"""Messages that are parked before consumers get them: delayed, half, and retried ones."""
