"""Faults of rows: ids and dates of whatever type another program gave them, texts of other scripts, and lists
of paths."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.fault_list.damage import written
from benchmarks.fault_list.fault import Fault, Harm, Place, Right, same_documents

TEXT = "The lighthouse was built in the year 1871 for the herring boats of the northern coast. It stands."
COMMAND = (
    "ingest JOB --out WORK/new --set ingest.input='[\"{}\"]' --set ingest.language='' "
    "--set ingest.min_words=1"
)
UTC = "1970-01-01T00:00:00+00:00"
IDS: dict[str, tuple[Any, str]] = {
    "floats": (pa.array([7.0]), "7"),
    "decimals": (pa.array([Decimal("7.00")]), "7"),
    "bytes of UTF-8": (pa.array([b"seven"]), "seven"),
    "bytes of a UUID": (pa.array([UUID(int=1 << 127).bytes], pa.binary(16)), str(UUID(int=1 << 127))),
    "bytes of a small UUID": (pa.array([UUID(int=5).bytes], pa.binary(16)), str(UUID(int=5))),
    "categories": (pa.array(["seven"]).dictionary_encode(), "seven"),
}
"""Name of a column of one id → it, and the id of the document."""
DATES: dict[str, tuple[Any, str]] = {
    "days": (pa.array([19787], pa.date32()), "2024-03-05"),
    "nanoseconds": (pa.array([0], pa.timestamp("ns")), "1970-01-01T00:00:00"),
    **{
        f"the zone {zone}": (pa.array([0], pa.timestamp("s", zone)), UTC)
        for zone in ("UTC", "Z", "+0100", "GMT+2", "CEST", "tzutc()", "local")
    },
    **{
        f"the text {text}": (pa.array([text]), date)
        for text, date in {
            "2024-03-05 10:11:12": "2024-03-05T10:11:12",
            "Tue, 05 Mar 2024 10:11:12 EST": "2024-03-05T10:11:12-05:00",
            "2024-03-05 10:11:12 PDT": "2024-03-05T10:11:12-07:00",
            "2024-03-05 10:11:12 CEST": "",
            "Tue, 05 Mar 2024 10:11:12 CEST": "",
            "2024-03-05 10:11:12 +0100 CET": "2024-03-05T10:11:12+01:00",
            "March 5, 2024": "2024-03-05",
            "March 5th, 2024": "2024-03-05",
            "05-Mar-2024": "2024-03-05",
            "2024-03-05-06:00": "2024-03-05",
            "2024-03-05Z": "2024-03-05",
        }.items()
    },
}
"""Name of a column of one date → it, and the date of the document."""
SENTENCES = {
    "hi": ("दीपस्तंभ उत्तरी तट पर १८७१ में बनाया गया था।", "क्या वह अब भी खड़ा है?", "वह खड़ा है।"),
    "ur": ("مینار شمالی ساحل پر بنایا گیا تھا۔", "کیا وہ اب بھی کھڑا ہے؟", "وہ کھڑا ہے۔"),
    "hy": ("Փարոսը կառուցվել է հյուսիսային ափին։", "Այն դեռ կանգնած է։"),
    "am": ("መብራቱ በሰሜን ዳርቻ ላይ ተሠራ።", "እስካሁን ቆሟል።"),
    "my": ("မီးပြတိုက်ကို ကမ်းခြေတွင် တည်ဆောက်ခဲ့သည်။", "ယခုတိုင် ရှိနေသည်။"),
    "km": ("ប៉មភ្លើងត្រូវបានសាងសង់នៅឆ្នេរខាងជើង។", "វានៅតែឈរ។"),
    "ja": ("彼は「灯台は古い。」と聞いた。", "船は九時に港を出る。"),
    "zh": ("灯塔建于1871年。", "“它还在！”他说。", "它还在吗?", "它还在！"),
    "bn": ("বাতিঘর ৫ কি.মি. দূরে।", '"এটা কি আছে?" সে জিজ্ঞাসা করল।'),
    "ar": ("بنيت المنارة على الساحل الشمالي قبل مئة سنة لقوارب الصيادين.", '"هل بقيت؟" سأل أحمد.'),
    "ka": ("შუქურა ი. ჭავჭავაძემ ნახა.", "ის დგას."),
    "el": ("Ο φάρος χτίστηκε το 1871;", "Στέκεται ακόμη."),
}
"""Language → sentences of a text."""


def parquet(**columns: Any) -> Harm:
    """Write page.parquet, of one row with TEXT."""

    def harm(place: Place) -> None:
        pq.write_table(pa.table({"text": [TEXT], **columns}), place.folder / "page.parquet")

    return harm


def rows(place: Place, folder: str) -> list[dict[str, Any]]:
    """The rows of a folder of the new run."""
    parts = sorted((place.folder / "work/new" / folder).glob("part-*.parquet"))
    return [row for part in parts for row in pq.read_table(part).to_pylist()]


def holds(name: str, *expected: str) -> Right:
    """Test that a column of the new run's documents has these values."""
    return lambda place, sound: [row[name] for row in rows(place, "documents")] == list(expected)


def has_sentences(expected: Sequence[str]) -> Right:
    """Test that the new run's passages have these sentences."""

    def right(place: Place, sound: Place) -> bool:
        passages = rows(place, "passages")
        return [row["text"] for passage in passages for row in passage["sentences"]] == list(expected)

    return right


def jsonl(*rows: dict[str, Any]) -> Harm:
    return written("page.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def one_page(name: str, page: Harm, right: Right, command: str = COMMAND.format("page.jsonl")) -> Fault:
    """A file of one row, of which a new run makes one document."""
    return Fault(f"row: {name}", page, command, 0, "1 page = 1 document + 0 rejects", right=right)


def _typed() -> Iterator[Fault]:
    command = COMMAND.format("page.parquet")
    for name, (ids, doc_id) in IDS.items():
        yield one_page(f"ids of {name}", parquet(id=ids), holds("doc_id", doc_id), command)
    for name, (dates, date) in DATES.items():
        yield one_page(f"dates of {name}", parquet(date=dates), holds("date", date), command)


def _written() -> Iterator[Fault]:
    yield one_page("an id of 1.0", jsonl({"id": 1.0, "text": TEXT}), holds("doc_id", "1"))
    for language, sentences in SENTENCES.items():
        text = ("" if language in ("ja", "zh") else " ").join(sentences)
        yield one_page(f"sentences of {language}", jsonl({"id": "a", "text": text}), has_sentences(sentences))


def twins(place: Place) -> None:
    """Write two texts of Hindi that differ in vowel signs alone, which are other words."""
    words = [first + second for first in "कखगचजटडतदन" for second in "पबमयर"]
    texts = (" ".join(word[0] + sign + word[1] for word in words) + "।" for sign in "िु")
    jsonl(*({"id": f"h{n}", "text": text} for n, text in enumerate(texts)))(place)


def listed(place: Place) -> None:
    """Write a list of paths as a spreadsheet saves it, with a byte order mark and CR LF."""
    (place.folder / "warc.paths").write_bytes(b"\xef\xbb\xbfweb.warc.gz\r\n")


NORWEGIAN = (
    "Fyret ble bygget i året 1871 for fiskerne på den nordlige kysten, og det står der fremdeles. "
    "Hver morgen går båten fra havnen klokken ni, og den kommer tilbake før det blir mørkt."
)
FAULTS = (
    *_typed(),
    *_written(),
    Fault(
        "row: Hindi that differs in vowel signs",
        twins,
        COMMAND.format("page.jsonl") + " --set ingest.near_duplicates=0.8",
        0,
        "2 pages = 2 documents + 0 rejects",
        right=holds("doc_id", "h0", "h1"),
    ),
    Fault(
        "row: a text in bytes of Latin-1",
        parquet(text=pa.array([b"Th\xe9"])),
        COMMAND.format("page.parquet"),
        65,
        "1 undecodable",
    ),
    one_page(
        "the language nb",
        jsonl({"id": "a", "text": NORWEGIAN}),
        holds("language", "no"),
        COMMAND.format("page.jsonl").replace("language=''", "language=nb"),
    ),
    Fault(
        "a list of paths with a byte order mark",
        listed,
        "ingest JOB --out WORK/new --set ingest.input='[\"warc.paths\"]' --set ingest.paths_root=DIR",
        0,
        "60 documents",
        right=same_documents,
    ),
)
