"""Where `ottla …` starts.

`ottla up` and `ottla serve` become the server before anything of the command line is imported: a broker must neither
wait for nor hold on to typer, rich and librdkafka. Every other command goes through `ottla.cli.app`.
"""

import sys
from typing import NoReturn


def main() -> NoReturn:
    command, arguments = sys.argv[1:2], sys.argv[2:]
    match command:
        case ["up"]:
            from ottla.server.main import run_up

            sys.exit(run_up(arguments))
        case ["serve"]:
            from ottla.server.main import run_serve

            sys.exit(run_serve(arguments))
        case _:
            from ottla.cli.app import app

            app(prog_name="ottla")
            sys.exit(0)


if __name__ == "__main__":
    main()
