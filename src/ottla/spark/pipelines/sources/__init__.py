"""Where a pipeline reads from: one file a kind."""
