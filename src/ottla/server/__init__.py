"""The real world: sockets, threads, processes, settings, start and stop order."""
