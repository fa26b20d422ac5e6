"""Compaction: of every key the newest record stays, with its offset and its timestamp (feature L7).

In the order of a pass: `plan` says what of a log may be cleaned and whether it is worth it, `job` is that as a message,
`clean` walks the files and writes new ones (`newest_offsets` what is newest, `transactions` what was aborted,
`batch_filter` what stays of a batch), `PartitionLog.prepare_swap` and its two followers put them in place.

Only sealed, synced segments below the last stable offset are touched. The blocking work needs nothing but a disk and a
job, so it runs in a process of its own; the log itself is changed by the broker alone.
"""
