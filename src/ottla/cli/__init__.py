"""The command line, one file per command group. An edge: it talks to brokers as any Kafka client does."""
