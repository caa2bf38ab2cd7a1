"""The engine `journal` of the data source: each row is a record in a journal's file, with its state."""
