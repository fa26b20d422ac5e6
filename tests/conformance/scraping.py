"""A node's metrics page, as Prometheus reads it."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def scrape(host: str, port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as response:
        assert response.headers["Content-Type"].startswith("text/plain")
        text = response.read().decode()
    return {sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples}
