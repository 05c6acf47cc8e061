"""The operator: what runs before and behind Spark's shuffle in every micro-batch."""
