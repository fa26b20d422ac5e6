"""`ottla doctor`: looks at a cluster for some seconds and says what is wrong, how it can tell, and what to do."""

from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.console import Group as Stacked
from rich.console import RenderableType
from rich.text import Text

from ottla.cli.connection import connected
from ottla.cli.diagnosis import Finding, Severity, diagnose
from ottla.cli.errors import OPERATION_FAILED
from ottla.cli.evidence import Evidence, gather
from ottla.cli.options import DEFAULT_SERVERS, AsJson, Properties, Servers, connection_of, examples
from ottla.cli.output import counted, done, facts, print_json, print_table, stderr

EXAMPLES: Final = examples(
    ("what is wrong?", "ottla doctor"),
    ("a longer look, for rates and groups that change slowly", "ottla doctor --sample 60"),
    ("for a cron job: exit code 1 and what was found", "ottla doctor --json | jq -r '.findings[].what'"),
)

STYLES: Final = {Severity.CRITICAL: "bold red", Severity.WARNING: "bold yellow"}


def doctor(
    sample_s: Annotated[
        float, typer.Option("--sample", min=0.1, metavar="SECONDS", help="Between the two looks at rates and offsets.")
    ] = 10.0,
    stuck_after_s: Annotated[
        float, typer.Option("--stuck-after", min=0, metavar="SECONDS", help="A record may wait so long for its reader.")
    ] = 60.0,
    servers: Servers = DEFAULT_SERVERS,
    properties: Properties = None,
    as_json: AsJson = False,
) -> None:
    """Look for full disks, hot partitions, stuck groups, missing replicas, a weak quorum and wrong addresses.

    Tells each with its evidence and its remedy. Exit code 1 if anything was found.
    """
    with connected(connection_of(servers, properties)) as connection, stderr().status(f"looking for {sample_s:.0f} s"):
        evidence = gather(connection, sample_s)
    findings = diagnose(evidence, stuck_after_s=stuck_after_s)
    if as_json:
        print_json({"ok": not findings, "seconds": evidence.seconds, "findings": [asdict(each) for each in findings]})
    else:
        for finding in findings:
            print_table(finding_view(finding))
        if not findings:
            done(f"nothing wrong: {looked_at(evidence)}")
    if findings:
        raise typer.Exit(OPERATION_FAILED)


def finding_view(finding: Finding) -> RenderableType:
    return Stacked(
        Text.assemble((f"{finding.severity}: ", STYLES[finding.severity]), (finding.what, "bold")),
        facts(
            [
                *(("seen", Text(line)) for line in finding.evidence),
                *(("do", Text(line, style="green")) for line in finding.fix),
            ]
        ),
        "",
    )


def looked_at(evidence: Evidence) -> str:
    state = evidence.state
    return (
        f"{counted(len(state.brokers), 'broker')}, {counted(len(state.partitions), 'partition')} and "
        f"{counted(evidence.group_count, 'group')} looked at for {evidence.seconds:.0f} s"
    )
