"""Raw connections by the dozen: questions that wait for each other's answers, as those of a group's members do."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Self

from benchmarks.probe import ANSWER_SECONDS_MAX, SIZE
from ottla.wire.apis import ApiKey
from ottla.wire.frame import decode_response, encode_request


class AsyncClient:
    """One connection, one request at a time. Messages go through Ottla's codecs, as in raw_client.py."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, port: int) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        self._writer.write(encode_request(key, version, 0, "benchmark", request))
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            (size,) = SIZE.unpack(await self._reader.readexactly(SIZE.size))
            frame = await self._reader.readexactly(size)
        return decode_response(key, version, memoryview(frame))[1]

    def close(self) -> None:
        self._writer.close()


async def run_in_parallel(
    port: int, jobs: Iterable[Callable[[AsyncClient], Awaitable[None]]], *, connections: int
) -> None:
    """Every job once, each connection taking the next when it is free."""
    remaining = iter(jobs)

    async def work() -> None:
        client = await AsyncClient.connect(port)
        try:
            for job in remaining:
                await job(client)
        finally:
            client.close()

    await asyncio.gather(*(work() for _ in range(connections)))
