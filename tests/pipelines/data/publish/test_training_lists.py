"""Training lists of sentences: shares, what is neither right nor wrong, no leak between splits, nothing lost
uncounted."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from answermill.__main__ import main
from answermill.indexing.passages.text import fold
from answermill.pipelines.data.formats import by_question, read_dataset
from answermill.pipelines.data.publish.left_out import Reason
from answermill.pipelines.data.publish.lists.list_drawing import Verdict, draw
from answermill.pipelines.data.publish.lists.list_files import Attribution, write_lists
from answermill.pipelines.data.publish.lists.list_rules import KINDS, Kind, ListRules, PlacedSentence
from answermill.pipelines.data.publish.lists.list_sources import Sources, by_rank, by_stage, first_retrieved
from answermill.pipelines.data.publish.lists.retrieval_scores import with_scores
from answermill.pipelines.data.publish.lists.training_lists import TrainingLists, build
from answermill.pipelines.data.publish.question_splits import LabelledQuestions
from answermill.pipelines.data.splits import SPLITS
from answermill.pipelines.errors import BAD_DATA, INPUT_MISSING, OUTPUT_EXISTS, SETTINGS, USAGE, JobError
from answermill.pipelines.runs.commit import Commit
from answermill.pipelines.runs.manifests.outcome import Outcome
from answermill.pipelines.runs.parquet_folder import PartWriter
from answermill.ranking.lists import ranked_list
from answermill.ranking.plan import to_sentences
from answermill.ranking.rerankers.blend.score_columns import WeightedSum
from answermill.schemas.corpus import Passage, Question, Sentence
from answermill.schemas.labels import LabelledCandidate, SentenceLabel
from answermill.schemas.ranked import Candidate, Hit, RankedList, ScoredCandidate, StageScore
from answermill.schemas.record import Record
from tests.made_steps import Rows, made_step, report
from tests.pipelines.data.publish.test_training_passages import SPLITTER, World

NAMED = Attribution("A made set", "CC0")


class Lists(World):
    """The world of the passages' tests, whose labels have their sentences' texts."""

    def __init__(self, documents: int = 60, questions: int = 20, seed: int = 0) -> None:
        super().__init__(documents, questions, seed)
        self.passages = [passage for page in self.documents for passage in SPLITTER.split(page)]
        self.texts = {s.sentence_id: s.text for p in self.passages for s in p.sentences}
        self.labels = [replace(label, text=self.texts[label.sentence_id]) for label in self.labels]

    def draw(self, rules: ListRules | None = None, passages=None, splits=None, answers=None) -> TrainingLists:
        passages = self.passages if passages is None else passages
        ids = [(p.passage_id, p.doc_id) for p in passages]
        sources = Sources(lambda _: by_rank(self.hits), lambda _: passages, ids)
        return build(LabelledQuestions(self.labels, self.questions, splits), sources, rules, answers)

    def right(self, q: str) -> set[str]:
        return {label.sentence_id for label in self.labels if label.question_id == q and label.label}


def rows_of(lists: TrainingLists) -> Iterator[LabelledCandidate]:
    return (row for _, rows in lists.lists for row in rows)


def check_accounts(lists: TrainingLists) -> None:
    counts = lists.counts
    left = sum(n for name, n in counts.items() if name.startswith("candidates_left_out_"))
    rows = list(rows_of(lists))
    wrong = sum(counts[f"negatives_{kind}"] for kind in KINDS)
    assert counts["candidates"] == counts["positives"] + wrong + left
    assert (counts["positives"], wrong) == (sum(r.label for r in rows), sum(not r.label for r in rows))
    assert counts["questions"] == len(lists.lists) + counts["questions_left_out"]


@pytest.mark.parametrize("seed", range(6))
def test_neither_question_nor_document_stands_in_two_splits_and_nothing_is_lost(seed: int) -> None:
    world = Lists(seed=seed)
    lists = world.draw(ListRules(6, shares=(0.4, 0.3, 0.3), seed=seed))
    check_accounts(lists)
    held = defaultdict(lambda: [set(), set(), set()])

    for split, rows in lists.lists:
        for row in rows:
            for n, value in enumerate((row.question_id, row.doc_id, fold(row.question))):
                held[n][SPLITS.index(split)].add(value)

    assert len({split for split, _ in lists.lists}) == 3
    assert all(not (a & b or a & c or b & c) for a, b, c in held.values())
    assert lists.counts["candidates_left_out_document_of_another_split"] > 0
    for _, rows in lists.lists:
        assert {r.candidate_id for r in rows if r.label} == world.right(rows[0].question_id)
        assert [r.position for r in rows] == list(range(len(rows)))


def test_documents_may_be_in_two_splits_if_the_rules_say_so() -> None:
    lists = Lists().draw(ListRules(6, documents_apart=False))
    check_accounts(lists)
    assert not lists.counts["candidates_left_out_document_of_another_split"]
    doc_ids = [
        {row.doc_id for split, rows in lists.lists if split == name for row in rows} for name in SPLITS
    ]
    assert doc_ids[0] & doc_ids[2]


def big(inside: int = 6) -> Lists:
    """A right document of four passages, six others that were retrieved, and twenty that were not; `inside`
    sentences each."""
    world = one_question()
    world.passages = []
    for doc_id, passages in [
        ("own", 4),
        *((f"far{n}", 1) for n in range(6)),
        *((f"rest{n}", 1) for n in range(20)),
    ]:
        for n in range(passages):
            sentences = [(f"{doc_id}@{n}.{m}", f"{doc_id} number {n} {m}.") for m in range(inside)]
            world.passages.append(joined(doc_id, sentences, n))

    world.labels = [SentenceLabel("q", "own@1.1", "own", "own number 1 1.", 1)]
    far = [p for p in world.passages if p.doc_id.startswith("far")]
    world.hits = [
        Hit("q", "Who wrote it?", n, 1 / n, None, None, None, None, p) for n, p in enumerate(far, 1)
    ]

    return world


def kinds(world: Lists, lists: TrainingLists) -> tuple[int, ...]:
    """How many wrong sentences are of each kind, worked out anew."""
    tally: Counter[str] = Counter()
    for row in rows_of(lists):
        if not row.label:
            own = "passage" if row.candidate_id.startswith("own@1.") else "document"
            tally[
                own if row.doc_id == "own" else "retrieved" if row.doc_id.startswith("far") else "random"
            ] += 1
    counted = tuple(lists.counts[f"negatives_{kind}"] for kind in KINDS)
    assert counted == tuple(tally[kind] for kind in KINDS)
    return counted


def test_wrong_sentences_are_drawn_in_the_given_shares() -> None:
    world = big()
    for shares, wanted in [((0.2, 0.25, 0.45, 0.1), (4, 5, 9, 2)), ((0.0, 0.5, 0.0, 0.5), (0, 10, 0, 10))]:
        lists = world.draw(ListRules(20, shares, shares=(1.0, 0.0, 0.0)))
        assert kinds(world, lists) == wanted and not lists.counts["instead_of_other_kinds"]
        check_accounts(lists)
    drawn = {
        frozenset(r.candidate_id for r in rows_of(world.draw(ListRules(20, shares=(1.0, 0, 0), seed=n))))
        for n in range(4)
    }
    assert len(drawn) == 4


def test_what_a_kind_lacks_others_make_up_for_and_what_all_lack_is_counted() -> None:
    # One wrong sentence in the right passage, six elsewhere in its document, twelve retrieved.
    world = big(inside=2)
    lists = world.draw(ListRules(20, shares=(1.0, 0.0, 0.0)))
    assert kinds(world, lists) == (1, 5, 12, 2) and lists.counts["instead_of_other_kinds"] == 3
    world.passages = [p for p in world.passages if not p.doc_id.startswith("rest")]
    lists = world.draw(ListRules(20, shares=(1.0, 0.0, 0.0)))
    assert kinds(world, lists) == (1, 6, 12, 0) and lists.counts["questions_short_of_negatives"] == 1
    check_accounts(lists)


@pytest.mark.parametrize(
    ("negatives", "shares", "quotas"),
    [
        (20, (0.2, 0.25, 0.45, 0.1), (4, 5, 9, 2)),
        (8, (0.2, 0.25, 0.45, 0.1), (2, 2, 3, 1)),
        (1, (0.0, 0.0, 1.0, 0.0), (0, 0, 1, 0)),
        (3, (0.25, 0.25, 0.25, 0.25), (1, 1, 1, 0)),
    ],
)
def test_quotas_add_up(negatives: int, shares: tuple[float, ...], quotas: tuple[int, ...]) -> None:
    assert tuple(ListRules(negatives, shares).quotas().values()) == quotas and sum(quotas) == negatives


def test_nothing_depends_on_the_order_of_what_comes_in() -> None:
    world, other = Lists(seed=3), Lists(seed=3)
    for each in (other.labels, other.hits, other.passages, other.documents):
        each.reverse()
    other.questions = dict(reversed(other.questions.items()))
    assert world.draw() == other.draw()
    assert world.draw() != world.draw(ListRules(seed=1))


def one_question(**texts: str) -> Lists:
    """A document of four sentences, the first of which is right, and another that was retrieved first; their
    texts by place."""
    world = Lists()
    own = ["Ada wrote it.", "She wrote more.", "Nobody did so.", "It rained then."]
    passage = [place(f"own@{n}", texts.get(f"own{n}", text)) for n, text in enumerate(own)]
    far = [place(f"far@{n}", texts.get(f"far{n}", f"Other words {n}.")) for n in range(3)]
    world.passages = [joined("own", passage[:2], 0), joined("own", passage[2:], 1), joined("far", far, 0)]
    world.questions = {"q": "Who wrote it?"}
    world.labels = [SentenceLabel("q", "own@0", "own", passage[0][1], 1)]
    world.hits = [
        Hit("q", "Who wrote it?", n, 1 / n, None, None, None, None, p)
        for n, p in enumerate(world.passages[::-1], 1)
    ]
    return world


def place(name: str, text: str) -> tuple[str, str]:
    return name, text


def joined(doc_id: str, sentences: Sequence[tuple[str, str]], number: int) -> Passage:
    start, spans = 100 * number, []
    for name, text in sentences:
        spans.append(Sentence(name, start, start + len(text), text))
        start += len(text) + 1
    text = " ".join(text for _, text in sentences)
    return Passage(
        f"{doc_id}#{number}", doc_id, "", f"Title of {doc_id}", 100 * number, start - 1, text, tuple(spans)
    )


NO_RANDOM = ListRules(10, (0.3, 0.3, 0.4, 0.0), shares=(1.0, 0.0, 0.0))


def test_a_sentence_of_the_right_document_that_holds_an_answer_is_neither_right_nor_wrong() -> None:
    world = one_question(own1="ADA  wrote more.", own2="Adam did so.", far1="Then Ada wrote more.")
    lists = world.draw(NO_RANDOM, answers={"q": ["Ada", "Lovelace"]})
    check_accounts(lists)
    assert lists.counts["candidates_left_out_answer_string"] == 1
    # Though they are 0.
    assert {"questions_near_duplicates", "questions_without_answer_strings"} <= lists.counts.keys()
    held = {row.candidate_id: row.label for row in rows_of(lists)}
    # Adam is another word.
    assert held == {"own@0": 1, "own@2": 0, "own@3": 0, "far@0": 0, "far@1": 0, "far@2": 0}
    without = {row.candidate_id for row in rows_of(world.draw(NO_RANDOM))}
    assert without == {*held, "own@1"}


def test_a_text_is_once_in_a_list_and_a_right_one_s_text_is_never_wrong() -> None:
    world = one_question(far0="ada wrote IT.", far1="Nobody did so.")
    lists = world.draw(NO_RANDOM)
    check_accounts(lists)
    assert (
        lists.counts["candidates_left_out_text_of_a_right_one"]
        == lists.counts["candidates_left_out_same_text"]
        == 1
    )
    assert "far@0" not in {row.candidate_id for row in rows_of(lists)}


def test_what_is_right_for_the_same_question_under_another_id_is_not_wrong() -> None:
    world = big()
    world.questions = {"q": "Who wrote it in Rome?", "r": "who wrote it, in Rome"}
    world.labels.append(SentenceLabel("r", "far0@0.1", "far0", "far0 number 0 1.", 1))
    world.hits += [replace(hit, question_id="r") for hit in world.hits]
    lists = world.draw(ListRules(40, (0.0, 0.5, 0.5, 0.0), shares=(1.0, 0.0, 0.0)))
    right = {"q": "own@1.1", "r": "far0@0.1"}
    for _, rows in lists.lists:
        assert {row.candidate_id for row in rows} & {*right.values()} == {right[rows[0].question_id]}
    assert lists.counts["candidates_left_out_right_for_a_near_question"] == 1

    # What people say holds.
    world.labels.append(SentenceLabel("q", "far0@0.1", "far0", "far0 number 0 1.", 0))
    (judged,) = (rows for _, rows in world.draw(ListRules(40)).lists if rows[0].question_id == "q")
    assert "far0@0.1" in {row.candidate_id for row in judged}
    check_accounts(lists)


def test_rows_know_their_title_and_their_neighbours_in_the_passage() -> None:
    lists = one_question().draw(NO_RANDOM)
    rows = {row.candidate_id: row for row in rows_of(lists)}
    assert (rows["own@0"].title, rows["own@0"].previous, rows["own@0"].next) == (
        "Title of own",
        "",
        "She wrote more.",
    )

    # The passage begins with it.
    assert (rows["own@2"].previous, rows["own@2"].next) == ("", "It rained then.")
    assert (rows["far@1"].previous, rows["far@1"].next) == ("Other words 0.", "Other words 2.")
    assert [row.candidate_id for row in rows_of(lists)][:3] == ["far@0", "far@1", "far@2"]  # as retrieved
    ((_, candidates),) = lists.lists
    around = {
        c.candidate_id: [s.text for s in c.hit.passage.sentences] for c in ranked_list(candidates).candidates
    }
    assert around["far@1"] == ["Other words 0.", "Other words 1.", "Other words 2."]


def test_what_people_judged_wrong_is_drawn_first() -> None:
    world = one_question()
    world.labels.append(SentenceLabel("q", "own@3", "own", "It rained then.", 0))
    for seed in range(5):
        lists = world.draw(ListRules(1, (0.0, 1.0, 0.0, 0.0), shares=(1.0, 0.0, 0.0), seed=seed))
        assert [row.candidate_id for row in rows_of(lists) if not row.label] == ["own@3"]
        check_accounts(lists)


def test_every_candidate_has_one_fate() -> None:
    def verdicts(kind: str, *reasons: Reason | None) -> Iterator[Verdict]:
        for n, reason in enumerate(reasons):
            yield PlacedSentence(f"{kind}@{n}", kind, f"{kind}#0", n, "", f"{kind} {n}", "", "", n), reason

    sources: dict[Kind, Iterator[Verdict]] = {
        "passage": verdicts("passage", None, Reason.ANSWER_STRING, None, None),
        "document": verdicts("document", None, None),
        "retrieved": verdicts(
            "retrieved", Reason.ANSWER_STRING, None, None, Reason.RIGHT_FOR_A_NEAR_QUESTION
        ),
        "random": verdicts("random", *[None] * 9),
    }
    drawn = draw(sources, {"passage": 2, "document": 3, "retrieved": 1, "random": 1}, {"document 0"})
    chosen = [(place.sentence_id, kind) for place, kind in drawn.wrong]
    assert chosen[:2] == [("passage@0", "passage"), ("passage@2", "passage")] and len(chosen) == 7

    assert chosen[2:] == [(f"{kind}@{n}", kind) for kind, n in [*NEXT, ("retrieved", 2), ("passage", 3)]]
    assert drawn.left_out.total() == 4 + 2 + 4 - sum(kind != "random" for _, kind in chosen)
    assert (
        drawn.left_out[Reason.SAME_TEXT] == 1
        and "document" in drawn.documents
        and (drawn.instead, drawn.missing) == (2, 0)
    )


NEXT: list[tuple[Kind, int]] = [("document", 1), ("retrieved", 1), ("random", 0)]


def scored(sentence: str, position: int, **stages: float) -> ScoredCandidate:
    scores = tuple(StageScore(name, score, 1) for name, score in stages.items())
    where = (
        "q",
        "Who?",
        "sentence",
        sentence,
        "d#0",
        "d",
        "",
        "",
        0,
        1,
        "text",
        None,
        "dropped",
        None,
        position,
        1,
        0.5,
    )

    return ScoredCandidate(*where, None, None, None, None, scores)


def test_the_best_by_a_stage_are_its_own_then_those_that_left_later() -> None:
    rows = [
        scored("a", 0, first=5.0),
        scored("b", 1, first=1.0, last=-3.0),
        scored("c", 2, first=2.0, last=4.0),
        scored("d", 3),
    ]
    assert [each.sentence_id for each in sorted(by_stage(rows, "last"), key=lambda f: f.goodness)] == [
        "c",
        "b",
        "a",
        "d",
    ]
    assert [each.sentence_id for each in sorted(by_stage(rows, "first"), key=lambda f: f.goodness)] == [
        "a",
        "c",
        "b",
        "d",
    ]

    at_exits = [
        replace(row, stages=(StageScore("cascade", score, rank, number),))
        for row, (score, rank, number) in zip(
            rows, ((6.0, None, 1), (2.0, 1, 5), (7.0, None, 2), (-1.0, 2, 5)), strict=True
        )
    ]
    order = [each.sentence_id for each in sorted(by_stage(at_exits, "cascade"), key=lambda f: f.goodness)]
    assert order == ["b", "d", "c", "a"]  # scores of different exits do not compare
    with pytest.raises(JobError, match="--by none: it has scored no sentence") as e:
        list(by_stage(rows, "none"))
    assert e.value.code == SETTINGS


def test_sentences_of_other_documents_are_drawn_from_the_best(tmp_path: Path) -> None:
    world = one_question()
    for depth in (1, 2, 3):
        lists = world.draw(replace(NO_RANDOM, depth=depth))
        assert {r.candidate_id for r in rows_of(lists) if r.doc_id == "far"} == {
            f"far@{n}" for n in range(depth)
        }


def test_a_sentence_of_two_passages_is_where_the_better_one_is() -> None:
    world = one_question()
    far = world.hits[0].passage
    second = joined(
        "far", [(far.sentences[2].sentence_id, far.sentences[2].text), ("far@9", "A last one.")], 1
    )
    hits = [replace(world.hits[0], rank=rank, passage=passage) for rank, passage in ((5, far), (4, second))]
    for ranking in (hits, hits[::-1]):
        kept = first_retrieved(by_rank(ranking), {"q": {"own"}}, 3)["q"]
        assert list(kept) == ["far@2", "far@9", "far@0"]
        assert (kept["far@2"].passage_id, kept["far@2"].position) == ("far#1", (4, 0))


def test_what_was_retrieved_from_other_documents_than_the_run_has_is_refused() -> None:
    world = one_question()
    with pytest.raises(JobError, match=r"retrieved sentence 'far@.' is in no passage; retrieve again"):
        world.draw(NO_RANDOM, passages=world.passages[:2])


def test_labels_without_a_right_sentence_make_no_list() -> None:
    world = one_question()
    world.labels = [replace(world.labels[0], label=0)]
    for ranking in (by_rank(world.hits), by_stage([], "cascade")):
        with pytest.raises(JobError, match=r"no label can be used: .*question_without_answer") as e:
            sources = Sources(lambda _, ranking=ranking: ranking, lambda _: world.passages, ())
            build(LabelledQuestions(world.labels, world.questions), sources, NO_RANDOM)
        assert e.value.code == BAD_DATA


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"negatives": 0}, "--negatives 0: give at least 1"),
        ({"depth": 0}, "--depth 0"),
        (
            {"negative_shares": (0.5, 0.5, 0.5, 0.0)},
            "--shares 0.5 0.5 0.5 0: give shares of passage, document, retrieved, random",
        ),
        ({"negative_shares": (1.5, -0.5, 0.0, 0.0)}, "--shares 1.5 -0.5 0 0"),
        ({"shares": (0.5, 0.1, 0.1)}, "--split 0.5 0.1 0.1"),
    ],
)
def test_rules_that_are_none_are_refused(settings: Mapping[str, object], says: str) -> None:
    with pytest.raises(JobError, match=says) as e:
        ListRules(**settings)  # type: ignore[arg-type]
    assert e.value.code == USAGE


# Of a run


def write(run: Path, step: str, name: str, record: type[Record], rows: Sequence[Record]) -> None:
    writing = made_step(run, f"{step}-{name.replace('/', '-')}", {name: record})
    Commit(writing).begin()
    with PartWriter(run / name, record, 0) as writer:
        writer.write(rows)
    Commit(writing).finish(Outcome.of(Rows(), [report(0, {name: writer.parts})]))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lists")
    world = Lists()
    write(folder, "propagate", "labels/sentences", SentenceLabel, world.labels)
    write(folder, "ingest", "passages", Passage, world.passages)
    write(
        folder, "retrieve", "questions", Question, [Question(q, text) for q, text in world.questions.items()]
    )
    write(folder, "retrieve", "retrieved", Hit, world.hits)
    (folder / "answers.jsonl").write_text(
        "".join(json.dumps({"id": q, "answers": ["document 7"]}) + "\n" for q in world.questions)
    )
    return folder


def test_the_command_writes_what_training_and_dataset_read(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [
        "--answers",
        str(run / "answers.jsonl"),
        "--negatives",
        "6",
        "--name",
        "A made set",
        "--license",  # either spelling
        "CC0",
    ]
    with pytest.raises(SystemExit) as e:
        main(["sentences", str(run), "--out", str(tmp_path / "data"), *options])
    assert e.value.code == 0

    counts = json.loads((tmp_path / "data/sentences.json").read_text())
    (line,) = capsys.readouterr().out.splitlines()
    assert (
        line.startswith(f"sentences  train {counts['train_questions']} questions, ")
        and "sentences.json" in line
    )
    lists = Lists().draw(ListRules(6), answers={q: ["document 7"] for q in Lists().questions})
    assert {name: counts[name] for name in lists.counts} == dict(lists.counts) and counts["by"] == "retrieved"

    for name in SPLITS:
        wanted = [list(rows) for split, rows in lists.lists if split == name]
        if wanted:
            assert list(by_question(read_dataset(tmp_path / f"data/{name}.parquet"))) == wanted
        assert (
            counts[f"{name}_candidates"]
            == sum(map(len, wanted))
            == pq.read_metadata(tmp_path / f"data/{name}.parquet").num_rows
        )

    card = (tmp_path / "data/README.md").read_text()
    assert (
        card.startswith("# A made set")
        and "Licence: CC0." in card
        and f"- candidates: {counts['candidates']:,}\n" in card
    )
    assert str(run) not in card and counts["inputs"]["labels"] in card
    with pytest.raises(JobError, match="exists already, and has files") as refused:
        write_lists(run, tmp_path / "data", ListRules(), NAMED)
    assert refused.value.code == OUTPUT_EXISTS


def test_a_run_without_labels_or_scores_is_refused(run: Path, tmp_path: Path) -> None:
    with pytest.raises(
        JobError, match="labels/sentences is not there or not complete; run `answermill propagate"
    ) as e:
        write_lists(tmp_path, tmp_path / "data", ListRules(), NAMED)
    assert e.value.code == INPUT_MISSING
    with pytest.raises(JobError, match="run `answermill rerank") as e:
        write_lists(run, tmp_path / "data", ListRules(by="cascade"), NAMED)
    assert e.value.code == INPUT_MISSING


def test_rows_have_the_scores_that_a_stage_would_see_of_the_whole_retrieved_list(tmp_path: Path) -> None:
    world = big()
    bm25, dense = (9.0, 7.5, 7.0, None, 2.0, 1.0), (0.5, None, 0.9, 0.8, 0.1, 0.0)
    world.hits = [
        replace(hit, bm25_score=of_bm25, dense_score=of_dense)
        for hit, of_bm25, of_dense in zip(world.hits, bm25, dense, strict=True)
    ]
    write(tmp_path / "run", "propagate", "labels/sentences", SentenceLabel, world.labels)
    write(tmp_path / "run", "ingest", "passages", Passage, world.passages)
    write(tmp_path / "run", "retrieve", "questions", Question, [Question("q", "Who wrote it?")])

    write(tmp_path / "run", "retrieve", "retrieved", Hit, world.hits)
    write_lists(tmp_path / "run", tmp_path / "data", ListRules(20, depth=12, shares=(1.0, 0, 0)), NAMED)
    counts = json.loads((tmp_path / "data/sentences.json").read_text())
    rows = list(read_dataset(tmp_path / "data/train.parquet"))
    far = [row for row in rows if row.doc_id.startswith("far")]
    assert 2 < len(far) <= 12 < 36  # of six passages of six sentences
    hits = tuple(Candidate(hit, None, hit.rank - 1) for hit in world.hits)
    served = to_sentences(RankedList(Question("q", "Who wrote it?"), hits))

    for name in ("bm25", "dense", "log_rank"):
        blended = dict(
            zip(
                [c.candidate_id for c in served.candidates],
                WeightedSum.of({name: 1.0}).scores(served),
                strict=True,
            )
        )
        assert [getattr(row, name) for row in far] == [blended[row.candidate_id] for row in far]
        assert {getattr(row, name) for row in rows if row not in far} == {None}

    assert len({row.log_rank for row in far}) > 1
    assert counts["rows_without_retrieval_scores"] == len(rows) - len(far)
    assert all(row.candidate_id.endswith(f".{row.place}") for row in rows)


def test_an_index_that_was_not_searched_gives_no_score() -> None:
    world = one_question()
    hits = [replace(hit, dense_score=1.0 / hit.rank) for hit in world.hits]
    columns = {row.candidate_id: row for row in rows_of(with_scores(world.draw(NO_RANDOM), hits))}
    assert {row.bm25 for row in columns.values()} == {None}
    assert columns["far@0"].dense == columns["far@2"].dense > columns["own@0"].dense
    bare = with_scores(world.draw(NO_RANDOM), world.hits)  # of candidates that nobody retrieved
    assert {(row.bm25, row.dense, row.log_rank) for row in rows_of(bare)} == {(None, None, None)}
    assert bare.counts["rows_without_retrieval_scores"] == len(list(rows_of(bare)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"id": "other", "answers": ["x"]}\n', "it has answers of none of the 20 labelled questions"),
        ('{"id": "q00", "answers": []}\n', "no answer in it"),
        ('{"id": "q00", "answers": [1]}\n', r"answers '\[1\]'; give a text or a list of texts"),
        ('{"answers": ["x"]}\n', "no column question_id; it has answers"),
    ],
)
def test_answers_that_are_none_are_refused(run: Path, tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "answers.jsonl").write_text(text)
    with pytest.raises(JobError, match=says) as e:
        write_lists(run, tmp_path / "data", ListRules(), NAMED, answers=tmp_path / "answers.jsonl")
    assert e.value.code == BAD_DATA and not (tmp_path / "data").exists()
