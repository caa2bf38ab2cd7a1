"""A page store with one long queue: what a put and a get take as it grows, and the opening after a crash."""
