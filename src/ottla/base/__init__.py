"""Vocabulary and ports: types, errors, clock, disk, workers, limits. Imports nothing of ours."""
