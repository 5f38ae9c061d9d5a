from dataclasses import fields, replace

from answermill.ranking.lists import ranked_list
from answermill.schemas.corpus import Sentence
from answermill.schemas.labels import LabelledCandidate
from answermill.schemas.ranked import StageScore


def test_a_candidate_with_other_scores_or_of_a_sentence_keeps_all_else() -> None:
    row = LabelledCandidate("q", "Who?", "c", "d", "", 0, "The city.", 1, "", "")
    whole = replace(ranked_list([row]).candidates[0], position=3, eligible={"c": 0}, retrieval={"bm25": 1.0})
    kept = {field.name: getattr(whole, field.name) for field in fields(whole) if field.name != "stages"}
    assert None not in kept.values()

    scored = (StageScore("cosinet", 1.0, 1),)
    assert whole.with_stages(scored) == replace(whole, stages=scored)

    sentence = Sentence("s", 0, 9, "The city.")
    assert whole.of_sentence(sentence, 7) == replace(whole, sentence=sentence, position=7, eligible=None)
    assert scored[0].named("first") == replace(scored[0], stage="first")
