"""Send a few orders and read them back. `ottla up` in another terminal first, or any Kafka at localhost:9092.

python examples/quickstart.py [bootstrap servers]
"""

import sys

import ottla
from ottla.client.serializers import from_json, from_utf8, to_json

TOPIC = "orders"


def main(bootstrap_servers: str) -> None:
    with ottla.Admin(bootstrap_servers=bootstrap_servers) as admin:
        if TOPIC not in admin.list_topics():
            admin.create_topic(TOPIC, 3, configs={"retention.ms": 604_800_000})

    with ottla.Producer(bootstrap_servers=bootstrap_servers, value_serializer=to_json) as producer:
        deliveries = [
            producer.send(TOPIC, {"user": user, "amount": amount}, key=user)
            for user, amount in [("franz", 12), ("ottla", 30), ("franz", 7)]
        ]
        for delivery in deliveries:
            sent = delivery.get(timeout=10)
            print(f"sent      {sent.topic}-{sent.partition}@{sent.offset}")

    # Without a group: every partition, from its beginning, up to where it ends now.
    with ottla.Consumer(
        bootstrap_servers=bootstrap_servers,
        auto_offset_reset="earliest",
        key_deserializer=from_utf8,
        value_deserializer=from_json,
    ) as consumer:
        partitions = consumer.partitions_for(TOPIC)
        consumer.assign(partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for record in consumer.poll(timeout_ms=1_000):
                print(f"received  {record.topic_partition}@{record.offset}  {record.key}: {record.value}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
