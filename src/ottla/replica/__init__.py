"""One broker's copies of partitions: appending, the high watermark, waiting readers. Followers come with the cluster."""
