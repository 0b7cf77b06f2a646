"""Parquet shards, one row group per cloud: `writer`, `reader`, and `pages`, the reader's fast path."""
