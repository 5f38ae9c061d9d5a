#!/bin/sh
# The day of a researcher: a data set, baselines, a model of one's own, a table for the paper, a reranker of one's own.
#
#   sh researcher.sh [FOLDER]     FOLDER, out/researcher if absent, must be new or empty
#
# It needs `pip install 'answermill[plots,sentence-transformers]'`. The comment above each step names the page of
# the docs that teaches it.
set -eu

examples=$(cd "$(dirname "$0")/.." && pwd)
day=${1:-out/researcher}
mkdir -p "$day"
test -z "$(ls -A "$day")" || { echo "$day has files; name another folder, or remove it" >&2; exit 1; }
cd "$day"

step() { printf '\n== %s\n' "$*"; }

step "A data set: here lists of the sample's questions, as WikiQA's three files would be"  # docs/quickstart.md
answermill sample --no-run --out sample
python3 - <<'LISTS'
import json
from pathlib import Path

rows = map(json.loads, Path("sample/questions.jsonl").read_text().splitlines())
questions = {row["question_id"]: row["text"] for row in rows}
labels = [line.split("\t") for line in Path("sample/labels.tsv").read_text().splitlines()[1:]]
for split, first, last in (("train", 1, 50), ("dev", 51, 70), ("test", 71, 90)):
    lines = ["question_id\tquestion\tsentence\tlabel"]
    for question_id, sentence, label in labels:
        if first <= int(question_id[1:]) <= last:
            lines.append(f"{question_id}\t{questions[question_id]}\t{sentence}\t{label}")
    Path(f"{split}.tsv").write_text("\n".join(lines) + "\n")
LISTS
answermill dataset test.tsv --out test.parquet      # docs/datasets.md
answermill audit train.tsv --against test.tsv --vectors 0   # docs/evaluation.md: Audit

step "Baselines of the papers, and a model that ships"  # docs/evaluation.md
answermill evaluate WO+RR --labels test.parquet --questions wo_rr.parquet
answermill evaluate cosinet --labels test.parquet --questions cosinet.parquet

step "Two models of one's own"  # docs/training.md
cat > birnn.toml <<'TRAIN'
[model]
reranker = "cosinet"
form = "birnn"

[data]
name = "the sample's questions"
licence = "Apache-2.0"
train = ["train.tsv"]
dev = ["dev.tsv"]

[train]
epochs = 2
TRAIN
cat > pointwise.toml <<'TRAIN'
[transformer]
reranker = "pointwise"
encoder = "all-MiniLM-L6-v2"
layers = 2
pooling = "mean"

[data]
name = "the sample's questions"
licence = "Apache-2.0"
train = ["train.tsv"]
dev = ["dev.tsv"]

[train]
epochs = 1
learning_rate = 1e-4
TRAIN
answermill train birnn.toml --out birnn
answermill train pointwise.toml --out pointwise
answermill evaluate cosinet --checkpoint birnn --labels test.parquet --questions birnn.parquet
answermill evaluate pointwise --checkpoint pointwise --labels test.parquet --questions pointwise.parquet

step "The table of the paper"  # docs/evaluation.md: Is B better, or was it luck?
answermill compare wo_rr.parquet cosinet.parquet birnn.parquet pointwise.parquet --table table.tex table.md
cat table.tex

step "How much is the seed's doing?"  # docs/training.md: HAS
answermill sweep birnn.toml --over train.seed=1,2,3 --labels test.parquet --out seeds
cat seeds/means.json

step "A reranker of one's own"  # docs/extending.md: From outside: plug-ins
cp -R "$examples/plug_in/answermill_example" .
answermill evaluate answermill_example:LETTERS --labels test.parquet --set letters=aeiou --allow-code

step "The data set as a job, which retrieves, and has passages for PEASI"  # docs/datasets.md: A data set as a job
answermill dataset train.tsv dev.tsv test.tsv --as-job job
cat > plan.toml <<'PLAN'
[rerank]

[[rerank.stages]]
reranker = "cosinet"
keep = 30

[[rerank.stages]]
reranker = "answermill_example:LETTERS"
name = "letters"

[[rerank.stages]]
reranker = "pointwise"
checkpoint = "../pointwise"

PLAN
awk '/^\[rerank\]/ { while ((getline line < "plan.toml") > 0) print line; skip = 1; next }
     /^(# )?\[/ { skip = 0 }
     !skip' job/job.toml > job/own.toml
cp -R answermill_example job/
answermill run job/own.toml --out run --allow-code --set retrieve.depth=20
answermill evaluate run/scored --labels run/labels/sentences
answermill passages run --out passages --split-file job/splits.jsonl   # docs/training.md: PEASI

step "The model, for those who use sentence-transformers"  # docs/training.md: Lists from your own run
answermill export pointwise --out exported
python3 - <<'SCORES'
from sentence_transformers import CrossEncoder

import answermill as am

question, texts = "Why is the sea salty?", ["Rivers carry salt into it.", "It is blue."]
theirs = CrossEncoder("exported").predict([(question, text) for text in texts])
answers = am.rerank(question, texts, [am.stage("pointwise", checkpoint="pointwise")])
ours = {answer.text: answer.score for answer in answers}
for text, score in zip(texts, theirs, strict=True):
    print(f"{score:8.4f} {ours[text]:8.4f}  {text}")
    assert abs(score - ours[text]) < 0.02
SCORES

step "On what does it rest, and what would be sent?"  # docs/training.md: Give a checkpoint to others
answermill materials pointwise
answermill push pointwise OWNER/NAME --dry-run
