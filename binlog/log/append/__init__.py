"""How a record gets into the log: a writer's session, the open file, the background thread, idempotent producers."""
