"""The metadata quorum on a disk and a network: what `raft` decides is carried out here, on one node as on many.

building          a node's quorum from its configuration and its metadata directory
opening           from the files of a directory to the machine's first state
driver            `Quorum`: events in, effects carried out in their order, one timer
effect_queue      those effects, one after the other
flushing          fsyncs of the log, each for all who asked before it
commits           who waits for offsets to be committed
office            whether this node is the active controller, and who is told
store             the metadata log, `quorum-state` and snapshots: what blocks, one at a time
log_reading       batches of the log as the image takes them
image_following   the committed image follows the log; leadership begins when it has caught up
sight             whether a full disk keeps this node from knowing what is decided
exchange          requests and replies as messages, and where peers are
correspondence    what is asked of peers, and answered
leader_search     whom a node that starts asks for the leader, and what it tells meanwhile
own_snapshots     this node's own snapshots
snapshot_exchange snapshots between nodes
membership        a node joins the voters by itself, and tells them where it is
reserve           a few bytes kept for the change that frees a full disk
"""
