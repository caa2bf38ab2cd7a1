"""The main job, end to end, on real input: `python -m stress.demo`.

Each role is a process of its own, and a module here that can be run by itself:

- `writer`: appends its share of the events, and reports each record that it was told is kept.
- `takeover`: goes on with the work of a writer that was killed.
- `follower`: reads the records as they come, and stores where it is.
- `extract`: a Spark job that writes the log to Parquet.
- `compare`: reads everything again, and says whether it is the same.

`director` starts them, kills one, cuts the log over, restarts the follower, and shows what happens.
"""
