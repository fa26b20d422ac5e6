"""The metadata quorum as a pure state machine: KRaft (KIP-595), pre-vote (KIP-996), snapshots (KIP-630), voters that
change at run time (KIP-853).

Nothing in here reads a clock, draws a number, touches a file or a socket. `machine.RaftMachine.step(event, now_ms,
chance)` takes what happened and returns what is to be done, as values (`events.py`, `effects.py`). Who calls it: the
server's quorum driver, which owns the sockets, the metadata log and `quorum-state`; the simulator's peer
(`sim/raft_peer.py`), which owns none of them; and the scenario files of the unit tests. The driver's side of the bargain
is at the top of `effects.py`.

    machine       one event in, effects out: the only door
    state         the roles, and the table of their transitions
    node          what every role shares: epoch, vote, log, contacts with peers
    election      pre-vote, vote, winning and losing
    following     fetching, truncating, looking for the leader
    leading       the start of an epoch, check quorum, resigning
    serving       fetches answered or parked, the high watermark
    membership    one change of voters at a time
    snapshotting  a follower behind the log's start
    describe      the answer to DescribeQuorum
    voters, log_view, quorum_state, messages   what the above speak of
    control_records, wire_requests, wire_replies   Kafka's bytes, both ways
"""
