"""Labels of sentences to labels of passages, documents and windows (WQA §3.3)."""
