"""One partition on disk: segments, indexes, recovery, producer state, epochs, retention, in Kafka's file formats."""
