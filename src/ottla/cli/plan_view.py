"""Plans as tables and as JSON documents: every broker before and after, and what has to move for it."""

from collections.abc import Iterable
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from ottla.cli.balancing.model import Load
from ottla.cli.balancing.plan import Move, Plan
from ottla.cli.output import counted, number, plain, print_table, say, size, size_text, table
from ottla.cli.reassignment_file import reassignment_document

MOVES_SHOWN_MAX: Final = 20


def show_plan(plan: Plan) -> None:
    print_table(brokers_table(plan))
    print_table(moves_table(plan.moves[:MOVES_SHOWN_MAX]))
    if len(plan.moves) > MOVES_SHOWN_MAX:
        say(f"and {counted(len(plan.moves) - MOVES_SHOWN_MAX, 'partition')} more; --json shows all")
    print_table(Text(f" {plan_text(plan)}"))


def plan_text(plan: Plan) -> str:
    copied = f"{counted(plan.copies, 'replica')} to copy ({size_text(plan.copied_bytes)})"
    return f"{copied}, {counted(plan.leader_moves, 'leader')} to move"


def carried_out_text(plan: Plan) -> str:
    copied = f"{counted(plan.copies, 'replica')} copied ({size_text(plan.copied_bytes)})"
    return f"{copied}, {counted(plan.leader_moves, 'leader')} moved"


def gain_text(plan: Plan) -> str:
    """Imbalance is 0 where every broker is near the mean in everything, and grows with the square of the distance."""
    share = plan.gain / plan.cost_before if plan.cost_before else 0.0
    return f"imbalance {plan.cost_before:.3g} → {plan.cost_after:.3g}, {share:.0%} better"


def brokers_table(plan: Plan) -> Table:
    rows = [
        (
            plain(node),
            change_text(before.replicas, after.replicas),
            change_text(before.leaders, after.leaders),
            Text.assemble(size(before.disk_bytes), " → ", size(after.disk_bytes)),
            Text.assemble(size(before.bytes_per_second), "/s → ", size(after.bytes_per_second), "/s"),
        )
        for node, (before, after) in both(plan).items()
    ]
    return table([">broker", ">replicas", ">leaders", ">disk", ">bytes written and replicated"], rows)


def both(plan: Plan) -> dict[int, tuple[Load, Load]]:
    return {node: (plan.before[node], plan.after[node]) for node in sorted(plan.before)}


def change_text(before: float, after: float) -> Text:
    return Text(f"{before:,.0f} → {after:,.0f}", style="" if before == after else "bold")


def moves_table(moves: Iterable[Move]) -> Table:
    rows = [
        (
            plain(move.partition.topic),
            number(move.partition.partition),
            plain(", ".join(map(str, move.before))),
            plain(", ".join(map(str, move.after))),
            plain(
                move.leader_after
                if move.leader_before == move.leader_after
                else f"{'–' if move.leader_before is None else move.leader_before} → {move.leader_after}"
            ),
            size(move.copied_bytes),
        )
        for move in moves
    ]
    return table(["topic", ">partition", "replicas", "new replicas", "leader", ">to copy"], rows)


def plan_document(plan: Plan) -> dict[str, Any]:
    """With the plan itself in Kafka's format under `reassignment`."""
    return {
        "imbalance_before": plan.cost_before,
        "imbalance_after": plan.cost_after,
        "replicas_to_copy": plan.copies,
        "bytes_to_copy": plan.copied_bytes,
        "leaders_to_move": plan.leader_moves,
        "brokers": [
            {"id": node, "before": before._asdict(), "after": after._asdict()}
            for node, (before, after) in both(plan).items()
        ],
        "reassignment": reassignment_document(plan.assignment),
    }
