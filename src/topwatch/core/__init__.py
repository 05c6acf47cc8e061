"""What all algorithms share: arrays and their types, the compiler, windows, ids, and the stream of steps."""
