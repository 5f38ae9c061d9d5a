"""The builder of the sample web: from pages, templates and questions of our own to a WARC file, questions and
labels."""
