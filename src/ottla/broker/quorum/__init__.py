"""The metadata quorum on a disk and a network: what `raft` decides is carried out here, on one node as on many.

driver          `Quorum`: events in, effects carried out in their order, one timer
opening         from the files of a directory to the machine's first state
store           the metadata log, `quorum-state` and snapshots: what blocks, one at a time
log_reading     batches of the log as the image takes them
image_following the committed image follows the log; leadership begins when it has caught up
exchange        requests and replies on their way to and from peers
snapshotting    this node's own snapshots
membership      a node joins the voters by itself, and tells them where it is
reserve         a few bytes kept for the change that frees a full disk
"""
