"""The records that `binlog tail` and `binlog cat` print, and how they print them.

`options` has the options of both commands.  `window` reads the part of a log that is asked for, in batches, forwards or
backwards; `filters` finds the records of a batch that match, by their bytes before it parses any; `sources` puts the
two together for one log.  `following` reads what is appended, and `merging` joins several logs by time.  `views` has
everything that an output can show of a record, `event_fields` the fields of an event, `formats` and `templates` the
formats, and `printing` writes them.  `times` parses and prints times.
"""
