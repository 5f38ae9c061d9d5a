"""Raw pages to documents: main text, title, language, registered domain, exact duplicates."""
