"""Where a pipeline writes to: one file a kind."""
