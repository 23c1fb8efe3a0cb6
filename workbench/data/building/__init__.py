"""How a corpus is built: a table on disk, stages with their account, and shards."""
