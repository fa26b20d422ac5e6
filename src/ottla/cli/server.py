"""`ottla up` and `ottla serve` as the help lists them. `ottla.cli.main` starts the server before this is imported."""

import typer

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def up(ctx: typer.Context) -> None:
    """Start a broker on this machine, with nothing to configure."""
    from ottla.server.main import run_up

    raise typer.Exit(run_up(ctx.args))


def serve(ctx: typer.Context) -> None:
    """Start a node from a TOML file and the environment."""
    from ottla.server.main import run_serve

    raise typer.Exit(run_serve(ctx.args))
