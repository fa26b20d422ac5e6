"""`ottla.metrics.port`: the node's metrics as a page for Prometheus, http://host:port/metrics.

The page is served by threads of prometheus_client; the figures are read on the event loop, where the node lives, and a
loop that does not answer in time makes the scrape fail, which is what an alert should see.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.broker.metrics import Metric
from ottla.broker.start import StartRefused

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

LOOP_SECONDS_MAX: Final = 5.0


class MetricsPage:
    def __init__(self, loop: asyncio.AbstractEventLoop, gather: Callable[[], list[Metric]]) -> None:
        self._loop = loop
        self._gather = gather

    def serve(self, host: str, port: int) -> Callable[[], None]:
        """Returns what ends it."""
        from prometheus_client import CollectorRegistry, start_http_server  # Few nodes are asked for a page.

        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise StartRefused(
                f"cannot serve metrics on {host}:{port}: {error.strerror}; choose another ottla.metrics.port"
            ) from error

        def close() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return close

    def collect(self) -> "Iterator[Family]":
        """What prometheus_client asks a collector for, in a thread of its own."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for metric in asyncio.run_coroutine_threadsafe(self._on_loop(), self._loop).result(LOOP_SECONDS_MAX):
            kind = CounterMetricFamily if metric.only_grows else GaugeMetricFamily
            yield kind(metric.name, metric.description, value=metric.value)

    async def _on_loop(self) -> list[Metric]:
        return self._gather()
