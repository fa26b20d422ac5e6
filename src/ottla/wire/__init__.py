"""Bytes ↔ messages: definitions, compiled codecs, frames, record batches, compression.

Definitions (`definitions/`, read by `notation` into `schema`) → classes (`api`, `message`) and codecs (`codec`, whose
source `decoding` and `encoding` write) → frames (`frame`, `apis`). Whatever a peer sends ends in a value or in a
`ProtocolError`.
"""
