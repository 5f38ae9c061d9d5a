"""The default extractor: it chooses the blocks of a page that are its main text
(indexing/documents/html_text.py)."""
