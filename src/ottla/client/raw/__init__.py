"""Kafka's protocol by plain sockets, for the few requests that librdkafka has no function for.

`Connection` is one broker, `Cluster` finds the right one: any, a partition's leader, a group's or a transactional
id's coordinator. Blocking, one request at a time, in the highest version that both sides know. `Security` says whether
with TLS and SASL.
"""
