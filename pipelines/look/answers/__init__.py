"""The answers of all questions as files for colleagues: a page to filter, CSV and Excel."""
