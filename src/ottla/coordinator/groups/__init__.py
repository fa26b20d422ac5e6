"""Consumer groups: membership by the classic protocol, and committed offsets."""
