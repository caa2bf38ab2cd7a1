"""Messages that wait before consumers see them: delayed, half, and retried ones."""
