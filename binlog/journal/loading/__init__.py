"""Loading a journal: recognition of its layout, detection of damage, and the state of each record."""
