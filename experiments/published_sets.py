"""The data sets that the studies read: what each is, where it comes from, under which licence, and what it
becomes.

Two tables stand beside this file. `published_sources.tsv` has the published files: address, and size and
SHA-256 where the publisher or a library that loads the file has recorded them, or the file itself was
measured with. `published_files.tsv` has what they become below the data folder: size, and the SHA-256 of the
content that the saved results were measured on.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from experiments import published_forms as forms
from experiments import published_squad
from experiments.published_content import content_sha256
from experiments.published_squad import Convert

State = Literal["there", "differs", "in part", "not there"]


@dataclass(frozen=True)
class Source:
    """A published file."""

    url: str
    name: str
    size: int | None
    """Bytes; None if they are not recorded, and so the digest."""
    sha256: str | None


@dataclass(frozen=True)
class SetFile:
    """A file below the data folder, as it is read."""

    path: str
    size: int | None
    sha256: str | None
    """Digest of the content that the saved results were measured on; None if no saved result is of the
    set."""

    def state(self, data: Path) -> State:
        file = data / self.path
        if not file.is_file():
            return "not there"
        return "there" if self.sha256 in (None, content_sha256(file)) else "differs"


@dataclass(frozen=True)
class PublishedSet:
    """A data set, and how its published files become those that are read."""

    name: str
    about: str
    licence: str
    page: str
    """Address of a page about it; '' if there is none."""
    convert: Convert | None = None
    """Turns its published files into those that are read; None if it was made by hand."""
    built_from: tuple[str, ...] = ()
    """Sets that it is made of."""
    note: str = ""
    """Difference between what is fetched and what the saved results were measured on, or the reason why it
    cannot be fetched."""

    @property
    def sources(self) -> tuple[Source, ...]:
        return SOURCES.get(self.name, ())

    @property
    def files(self) -> tuple[SetFile, ...]:
        return FILES[self.name]

    @property
    def size(self) -> int:
        """Bytes below the data folder, as far as they are recorded."""
        return sum(file.size or 0 for file in self.files)

    def state(self, data: Path) -> State:
        """State of all its files; 'in part' if some are missing."""
        states = {file.state(data) for file in self.files}
        if "not there" in states and len(states) > 1:
            return "in part"
        return "differs" if "differs" in states else states.pop()


def _rows(table: str) -> list[dict[str, str]]:
    with Path(__file__).with_name(table).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def _sources() -> Mapping[str, tuple[Source, ...]]:
    sources: dict[str, tuple[Source, ...]] = {}
    for row in _rows("published_sources.tsv"):
        name = row["name"] or row["url"].rpartition("/")[2]
        source = Source(row["url"], name, int(row["bytes"]) if row["bytes"] else None, row["sha256"] or None)
        sources[row["set"]] = (*sources.get(row["set"], ()), source)
    return sources


def _files() -> Mapping[str, tuple[SetFile, ...]]:
    files: dict[str, tuple[SetFile, ...]] = {}
    for row in _rows("published_files.tsv"):
        file = SetFile(row["file"], int(row["bytes"]) if row["bytes"] else None, row["sha256"] or None)
        files[row["set"]] = (*files.get(row["set"], ()), file)
    return files


SOURCES, FILES = _sources(), _files()


def _fetched() -> Iterator[PublishedSet]:
    yield PublishedSet(
        "wikiqa",
        "WikiQA (Yang et al. 2015): answer sentence selection on summaries of Wikipedia",
        "Microsoft Research Data License: research only",
        "https://www.microsoft.com/en-us/download/details.aspx?id=52419",
        forms.wikiqa,
    )
    yield PublishedSet(
        "selqa",
        "SelQA (Jurczyk et al. 2016): answer sentence selection on sections of Wikipedia, dev and test",
        "Apache 2.0; text of Wikipedia",
        "https://github.com/emorynlp/selqa",
        forms.selqa,
    )

    yield PublishedSet(
        "squad",
        "SQuAD v1.1 and v2.0 dev (Rajpurkar et al. 2016, 2018), and SQuAD-sent's dev and test sets",
        "CC BY-SA 4.0",
        "https://rajpurkar.github.io/SQuAD-explorer/",
        published_squad.squad,
        note="The files that were measured on lack the answers' offsets, which were found again by words: "
        "of 1,190 questions the right sentence of 98.7 %. The release has them, so a few labels differ.",
    )

    yield PublishedSet(
        "squadshifts",
        "SQuADShifts, new Wikipedia articles (Miller et al. 2020), and SQuAD-sent's training set of them",
        "CC BY 4.0 as Hugging Face's card says; the repository states none",
        "https://modestyachts.github.io/squadshifts-website/",
        published_squad.squadshifts,
    )
    yield PublishedSet(
        "squad-train",
        "SQuAD v1.1 train (Rajpurkar et al. 2016), and the sentences of its paragraphs",
        "CC BY-SA 4.0",
        "https://rajpurkar.github.io/SQuAD-explorer/",
        published_squad.squad_train,
        note="As of `squad`. And 988 of the 80,847 questions whose sentence counts as certain are missing.",
    )

    yield PublishedSet(
        "qed",
        "QED (Lamm et al. 2021): real queries of Natural Questions, with the sentences of a paragraph",
        "CC BY-SA 3.0 (Natural Questions); the repository states none",
        "https://github.com/google-research-datasets/QED",
        forms.qed,
        note="The saved results were measured on 7,167 of the 7,638 training examples, the first published; "
        "and tokens are joined to a text by rules that may differ in places.",
    )

    yield PublishedSet(
        "fairytaleqa",
        "FairytaleQA (Xu et al. 2022): questions on 278 tales, those whose answer stands in a sentence",
        "Apache 2.0; tales of Project Gutenberg",
        "https://github.com/uci-soe/FairytaleQAData",
        forms.fairytaleqa,
        note="Answer sentences are found by their words, and were by other rules: one in twenty differs.",
    )
    yield PublishedSet(
        "wikiwhy",
        "WikiWhy (Ho et al. 2023): why questions with cause and effect",
        "MIT",
        "https://github.com/matt-seb-ho/WikiWhy",
        forms.wikiwhy,
    )

    yield PublishedSet(
        "nq-open",
        "NQ-open dev (Lee et al. 2019): questions of Natural Questions with short answers",
        "CC BY-SA 3.0",
        "https://github.com/google-research-datasets/natural-questions/tree/master/nq_open",
        forms.nq_open,
    )
    yield PublishedSet(
        "cacm",
        "CACM: titles and abstracts of 1958 to 1979 with judged queries, from Anserini",
        "none stated for the collection",
        "https://github.com/castorini/anserini",
        forms.cacm,
    )

    yield PublishedSet(
        "cranfield",
        "Cranfield: 1,400 abstracts on aerodynamics with judged queries",
        "none stated",
        "https://github.com/oussbenk/cranfield-trec-dataset",
        forms.cranfield,
    )
    yield PublishedSet(
        "corpus-wiki",
        "4,389 documents of Wikipedia, joined again from the sets whose questions are asked of them",
        "those of the sets",
        "",
        published_squad.corpus_wiki,
        built_from=("wikiqa", "selqa", "squad", "squadshifts"),
    )

    yield PublishedSet(
        "warc",
        "42 crawl files (WARC, WET, WAT) that projects for web archives keep for their tests",
        "those of the repositories; the pages remain their publishers'",
        "https://github.com",
        forms.unchanged("warc"),
    )


def _by_hand() -> Iterator[PublishedSet]:
    yield PublishedSet(
        "web-html",
        "533 pages of HTML, packed as WARC, most with a gold text (Trafilatura, Readability, newspaper)",
        "Apache 2.0 and MIT (the repositories); the pages remain their publishers'",
        "https://github.com/adbar/trafilatura (tests/eval), https://github.com/mozilla/readability "
        "(test/test-pages), https://github.com/codelucas/newspaper (tests/data)",
        note="Packed by hand: a download would have other record ids and dates.",
    )
    yield PublishedSet(
        "insuranceqa-partial",
        "a part of insuranceQA v1 (Feng et al. 2015): 8,690 of its answers, with pools of 500 of them",
        "research only, as its README says",
        "https://github.com/shuzi/insuranceQA, https://github.com/markeyser/insurance-adapter-data",
        note="Drawn by hand; `insuranceqa` is the whole set.",
    )

    yield PublishedSet(
        "embeddings",
        "vectors of a few words: word2vec's (8,000, of 300 numbers) and GloVe's (11,925, of 25 numbers)",
        "Apache 2.0 (word2vec), PDDL (GloVe)",
        "https://github.com/psychbruce/PsychWordVec (data/demodata.rda), "
        "https://github.com/rimonim/embedplyr (data/glove_twitter_25d.rda)",
        note="Taken by hand from files of R.",
    )
    yield PublishedSet(
        "hotpotqa-sample",
        "1,413 questions of HotpotQA (Yang et al. 2018) with their ten paragraphs, of which two are needed",
        "CC BY-SA 4.0",
        "https://hotpotqa.github.io",
        note="Gathered by hand from samples of the set in public repositories.",
    )
    yield PublishedSet(
        "leakage",
        "training questions that also stand in an evaluation set",
        "those of the sets",
        "",
        note="Made by hand of the other sets.",
    )


def _of_the_papers() -> Iterator[PublishedSet]:
    """Sets of the papers' tables that no study reads: `answermill dataset`, `train` and `evaluate` take
    the files as they are."""
    yield PublishedSet(
        "trecqa",
        "TREC-QA (Wang et al. 2007), as jacana has it",
        "none stated",
        "https://github.com/xuchen/jacana",
        forms.unchanged("trecqa"),
    )
    yield PublishedSet(
        "nq",
        "Natural Questions dev, simplified (Kwiatkowski et al. 2019): what NQ-LA's test set is made of",
        "CC BY-SA 3.0",
        "https://ai.google.com/research/NaturalQuestions/download",
        forms.unchanged("nq"),
    )

    yield PublishedSet(
        "insuranceqa",
        "insuranceQA v1 (Feng et al. 2015), whole",
        "research only, as its README says",
        "https://github.com/shuzi/insuranceQA",
        forms.unchanged("insuranceqa"),
    )
    yield PublishedSet(
        "asnq",
        "ASNQ (Garg et al. 2020): sentences of whole pages for the questions of Natural Questions",
        "CC BY-SA 3.0 (Natural Questions)",
        "https://github.com/alexa/wqa_tanda",
        forms.asnq,
    )


SETS: Mapping[str, PublishedSet] = {one.name: one for one in (*_fetched(), *_by_hand(), *_of_the_papers())}
