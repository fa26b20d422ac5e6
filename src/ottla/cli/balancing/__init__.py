"""Where replicas and leaders should lie: pure planning from a model of the cluster to replica lists, with no I/O in it.

`model` is what is known, `balance` weighs it, `rebalancing` evens it out, `placing` gives replicas a place when a broker
leaves or a replication factor changes, `plan` compares before and after.
"""
