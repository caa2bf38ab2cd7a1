"""The engine `log` of the data source: each row is a record of a log."""
