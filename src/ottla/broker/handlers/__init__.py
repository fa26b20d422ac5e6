"""One file per API family. Each ends in `APIS`, its rows of the dispatch table."""
