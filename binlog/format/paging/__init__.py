"""The file formats of paging: pages, acknowledgements, delivery counts, and the names of files.

Two layouts of pages exist, native and JBoss Messaging's; `page_file` and `page_record` have both.
"""
