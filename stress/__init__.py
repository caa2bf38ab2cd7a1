"""Programs that put binlog to work: the main job (`stress.demo`), long seeded runs, and measurements."""
