"""A node: wiring, request dispatch, handlers/ (one file per API family)."""
