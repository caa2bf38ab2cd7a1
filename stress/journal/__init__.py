"""Random programs of calls to a journal, checked against a model."""
