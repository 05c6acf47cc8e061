"""Live views: of a monitor that they push batches into, and of a pipeline that runs elsewhere."""
