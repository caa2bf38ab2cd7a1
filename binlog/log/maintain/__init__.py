"""What an operator does to a log: check, repair, prune, stat, backup."""
