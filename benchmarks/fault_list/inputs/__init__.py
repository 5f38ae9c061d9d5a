"""Faults of what a user brings: files of pages, questions and labels, web pages, rows, and web servers."""
