"""What the messages hold: text that compresses as events do, the same in every run."""

import json
import random
from functools import cache
from typing import Final

VARIETY: Final = 1_000  # Different messages; a batch of 1 MB of 1 KB messages repeats none.


@cache
def event_payloads(message_bytes: int) -> list[bytes]:
    """JSON events cut or padded to one size."""
    chance = random.Random(1892)
    return [_event(chance, number, message_bytes) for number in range(VARIETY)]


def _event(chance: random.Random, number: int, message_bytes: int) -> bytes:
    lines: list[str] = []
    while sum(len(line) for line in lines) < message_bytes:
        event = {
            "order_id": f"{chance.getrandbits(64):016x}",
            "customer": chance.randrange(1_000_000),
            "status": chance.choice(("created", "paid", "packed", "shipped", "delivered")),
            "amount": round(chance.uniform(1, 500), 2),
            "city": chance.choice(("Prague", "Vienna", "Brno", "Ostrava", "Berlin")),
            "sequence": number,
        }
        lines.append(json.dumps(event))
    return "\n".join(lines).encode()[:message_bytes]
