"""One broker's copies of partitions: appending, the high watermark, leaders and followers, the in-sync replicas."""
