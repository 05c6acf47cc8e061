"""What a user says: queries, scores, windows. Frozen, and validated when they are made."""
