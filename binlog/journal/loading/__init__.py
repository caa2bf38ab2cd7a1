"""Loading a journal: recognising its layout, finding damage, and what became of each record."""
