"""The file formats of paging: pages, acknowledgements, delivery counts, and the names of files."""
