"""Opening a store: reading the state that it was left in, refusing unknown features, and recovery."""
