"""One broker's copies of partitions: appending, the high watermark, waiting readers. The follower side comes with the cluster."""
