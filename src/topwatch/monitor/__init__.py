"""The monitor: batches in, changes out."""
