"""Crawl files to raw pages: WARC, WET, JSONL, TSV and Parquet."""
