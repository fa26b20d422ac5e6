"""`python -m ottla.server up|serve`: the serving path without the command line's imports."""

import sys

from ottla.server.main import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
