"""One flipped bit in a header, an index, an archive or a small file beside a log: every bit, one after the other."""
