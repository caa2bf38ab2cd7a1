"""Archives, which are closed log files compressed: making, reading and repairing them.

An archive has one zstd frame for each part of the file, so that a reader decompresses only the part that it needs;
plain `zstd` reads it too.
"""
