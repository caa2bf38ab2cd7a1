"""The commands that move records in and out of a log, one module each: `import`, `export` and `ship`.

Each calls one function of `binlog.moving` and prints the result.  Two of the modules have longer names than their
commands, because `import` is a keyword.
"""
