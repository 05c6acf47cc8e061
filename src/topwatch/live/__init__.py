"""Live views: they push batches into a monitor, read its changes and show them."""
