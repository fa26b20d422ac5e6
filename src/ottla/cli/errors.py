"""Expected failures, as one line that says what to do and an exit code that a script can test.

Whatever else escapes a command is a bug of ours and keeps its traceback. The codes: 0 done, 1 the operation failed,
2 the command was typed wrong (typer's), 3 no broker could be reached, 130 interrupted.
"""

from typing import Final

from ottla.client.errors import ClientError, PartialFailure
from ottla.client.remedies import REMEDIES

OPERATION_FAILED: Final = 1
UNREACHABLE: Final = 3

# The SDK's names for "there was no answer", as opposed to an answer that says no.
NO_ANSWER: Final = frozenset({"_TRANSPORT", "_ALL_BROKERS_DOWN", "_TIMED_OUT", "_RESOLVE", "_MSG_TIMED_OUT"})

# What to type next; the SDK's own remedies speak to programs.
ADVICE: Final = {
    "UNKNOWN_TOPIC_OR_PARTITION": "`ottla topic list` shows what there is",
    "_UNKNOWN_TOPIC": "`ottla topic list` shows what there is",
    "_UNKNOWN_PARTITION": "`ottla topic describe TOPIC` shows what there is",
    "TOPIC_ALREADY_EXISTS": "--if-not-exists accepts it",
    "INVALID_PARTITIONS": "partitions can only grow",
    "INVALID_REPLICATION_FACTOR": "`ottla cluster describe` shows the brokers",
    "NOT_LEADER_OR_FOLLOWER": "nobody leads: does a majority of the controllers run?",
    "GROUP_ID_NOT_FOUND": "`ottla group list` shows what there is",
    "NON_EMPTY_GROUP": "stop its consumers first: `ottla group describe GROUP` shows them",
    "GROUP_SUBSCRIBED_TO_TOPIC": "stop its consumers first: `ottla group describe GROUP` shows them",
    "TRANSACTIONAL_ID_NOT_FOUND": "`ottla txn list` shows what there is",
    "NO_SUCH_TRANSACTION": "`ottla txn find-hanging` shows where they begin",
    "INVALID_RECORD": "a compacted topic needs a key in each record: --key-separator, or a key in each line of --json",
    "MESSAGE_TOO_LARGE": "`ottla topic config TOPIC --set max.message.bytes=N` raises the limit",
}


class Failure(Exception):
    def __init__(self, message: str, *, exit_code: int = OPERATION_FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


def failure_of(error: ClientError, *, servers: str) -> Failure:
    """What a client's error means to the person who typed the command."""
    if error.code in NO_ANSWER:
        return no_answer(servers)
    if isinstance(error, PartialFailure):
        return Failure("; ".join(map(refusal_text, error.failures.values())))
    return Failure(refusal_text(error))


def refusal_text(error: ClientError) -> str:
    """What was being done, then the broker's own words under Kafka's name for the error, then what to type."""
    words = str(error).removeprefix(f"{error.code}: ").removesuffix(f". {REMEDIES.get(error.code)}")
    words, _, doing = words.partition(" (while ")
    return (f"{doing.removesuffix(')')}: " if doing else "") + refused(error.code, words)


def refused(code: str, words: str) -> str:
    advice = f" ({ADVICE[code]})" if code in ADVICE else ""
    return f"{code}: {words.removeprefix('Broker: ').rstrip('.')}{advice}"


def no_answer(servers: str) -> Failure:
    """Something listens there, so starting a broker is not the advice."""
    return Failure(
        f"no answer from {servers}: is it a Kafka listener, can its advertised address be reached from here, and does a "
        "majority of the cluster's controllers run?",
        exit_code=UNREACHABLE,
    )
