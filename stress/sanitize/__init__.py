"""The compiled part under the compiler's sanitizers; see `python -m stress.sanitize --help`."""
