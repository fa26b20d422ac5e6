"""Changes of PostgreSQL tables as records of topics, in Debezium's envelope: `ottla cdc run`, docs/CDC.md.

A process of its own and a plain Kafka client, an edge as `cli` is. PostgreSQL's logical decoding tells every committed
change; each is written together with the position behind it in one Kafka transaction, and only then acknowledged to
PostgreSQL. So a capture that is killed at any moment goes on with the very next change.

    pgoutput  column_types  table  envelope     pure: bytes of PostgreSQL -> keys and values of records
    connection  catalog  slot  snapshot  stream PostgreSQL
    topic_writer  positions                     Kafka
    session  capture                            one life of the connections; all of them
"""
