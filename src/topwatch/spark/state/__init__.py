"""The operator's state: segments, the manifest that names them, and where both live."""
