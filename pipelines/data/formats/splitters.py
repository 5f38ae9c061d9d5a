"""Text -> sentence spans (start, end) in code points, for the sets that are built from paragraphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from answermill.indexing.passages.sentences import Span, sentence_spans

Splitter = Callable[[str], Iterable[Span]]


def splitter_of(name: str | Splitter) -> Splitter:
    """The splitter 'rules': ours (indexing/passages); 'spacy': spaCy's blank English sentencizer; or any
    function that gives spans in order.

    Cosinet §5.1 names "the SpaCy sentence tokenizer" (2.1), which may be the parser of a model that is no
    longer published.
    """
    if callable(name):
        return name
    if name == "rules":
        return sentence_spans
    if name == "spacy":
        return _sentencizer()
    raise ValueError(f"splitter is {name!r}; known: 'rules', 'spacy', or a function")


def _sentencizer() -> Splitter:
    import spacy  # takes seconds, so not at the top

    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")

    def split(text: str) -> Iterator[Span]:
        with nlp.memory_zone():
            spans = [(sentence.start_char, sentence.end_char) for sentence in nlp(text).sents]
        for start, end in spans:
            part = text[start:end]
            if body := part.strip():
                first = start + part.index(body)
                yield first, first + len(body)

    return split
