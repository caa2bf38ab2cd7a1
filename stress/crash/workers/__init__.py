"""The workers: processes that run the parts, the victims that they fork, and their report."""
