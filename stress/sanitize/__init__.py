"""The compiled part under the compiler's sanitizers; `python -m stress.sanitize --help`."""
