"""What a user writes: queries, scores, windows. Frozen, and validated when they are made."""
