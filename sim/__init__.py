"""The simulated world: virtual time, seeded chance, disks that forget what was not synced, a network that drops.

The same coroutines that serve real sockets run in it. A failing seed is a command line that fails again:
`python -m sim --seed 17`.
"""
