"""The engine `commitlog` of the data source: each row is a message of a commit log."""
