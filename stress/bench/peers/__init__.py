"""Who takes part, one a file: what a user would otherwise pick, and the floors below which nobody gets."""
