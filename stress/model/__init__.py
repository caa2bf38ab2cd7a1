"""Models of the protocol, small enough to be searched."""
