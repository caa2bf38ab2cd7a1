"""Ways to let many threads append to one page (docs/decisions/0024-one-message-after-the-other.md), side by side."""
