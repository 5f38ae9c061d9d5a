"""From crawled files to passages, and from questions to the passages that an index finds for them."""
