"""A producer and a consumer in one event loop. `ottla up` in another terminal first.

python examples/asyncio_streams.py [bootstrap servers]
"""

import asyncio
import sys

import ottla

TOPIC = "ticks"
COUNT = 1_000


async def produce(bootstrap_servers: str) -> None:
    async with ottla.AsyncProducer(bootstrap_servers=bootstrap_servers) as producer:
        # `send` waits for room in the buffer only; the futures it returns wait for the acknowledgements.
        sent = [await producer.send(TOPIC, str(number)) for number in range(COUNT)]
        acknowledged = await asyncio.gather(*sent)
    print(f"sent      {len(acknowledged)} records, the last one at offset {acknowledged[-1].offset}")


async def consume(bootstrap_servers: str, ready: asyncio.Event) -> None:
    async with ottla.AsyncConsumer(bootstrap_servers=bootstrap_servers) as consumer:
        partitions = await consumer.partitions_for(TOPIC)
        await consumer.assign(partitions)
        for partition, end in (await consumer.end_offsets(partitions)).items():
            await consumer.seek(partition, end)
        ready.set()
        values: list[bytes] = []
        async for record in consumer:
            values.append(record.value)
            if len(values) == COUNT:
                break
    print(f"received  {len(values)} records, the last one says {values[-1]!r}")


async def main(bootstrap_servers: str) -> None:
    with ottla.Admin(bootstrap_servers=bootstrap_servers) as admin:
        if TOPIC not in await asyncio.to_thread(admin.list_topics):
            await asyncio.to_thread(admin.create_topic, TOPIC, 1)
    ready = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(consume(bootstrap_servers, ready), name="consume")
        await ready.wait()
        tasks.create_task(produce(bootstrap_servers), name="produce")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092"))
