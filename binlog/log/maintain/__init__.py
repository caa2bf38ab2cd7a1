"""Operations on a whole log: check, repair, prune, stat and backup."""
