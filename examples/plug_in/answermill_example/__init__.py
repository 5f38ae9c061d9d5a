"""A reranker as a plug-in: its name and keys, without the model, so that a job file is checked quickly."""

from pydantic import Field

from answermill.ranking.entry import Entry, StageSettings


class LettersStage(StageSettings):
    """Keys of a stage `reranker = "letters"`."""

    letters: str = Field("aeiou", min_length=1, description="letters that count")


LETTERS = Entry("letters", "answermill_example.letters:Letters", settings=LettersStage)
