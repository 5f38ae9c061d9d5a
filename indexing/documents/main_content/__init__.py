"""Which blocks of a page are its main text: the default extractor (indexing/documents/html_text.py)."""
