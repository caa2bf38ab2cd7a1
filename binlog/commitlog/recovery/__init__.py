"""Opening a store: which state it was left in, what it supports, and how it is recovered."""
