"""Coordinators: state machines over internal topics, each partition of which is one machine's log."""
