"""A demonstration of the log from writers to Parquet, on real input: `python -m stress.demo`.

Each role is a process of its own, and a module here that can be run alone:

- `writer`: appends its share of the events, and reports each acknowledged record.
- `takeover`: continues the work of a killed writer.
- `follower`: reads records as they are appended, and stores its position.
- `worker`: a member of a consumer group, which stores a result for each message that it gets.
- `extract`: a Spark job that writes the log to Parquet.
- `compare`: reads everything again and compares it.

`director` starts the writers and the follower, kills one, cuts the log over, restarts the follower, and shows the
events.  `sharing` starts the workers, kills one that has a message in hand, and replaces those that a message kills.
"""
