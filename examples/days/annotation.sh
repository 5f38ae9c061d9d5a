#!/bin/sh
# The day of an annotation lead: four people judge sentences in four tools, and a labelled set comes of it.
#
#   sh annotation.sh [FOLDER]     FOLDER, out/annotation if absent, must be new or empty
#
# people.py plays the four, and the one who decides where they differ: it writes what their tools export. The
# comment above each step names the page of the docs that teaches it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
day=${1:-out/annotation}
mkdir -p "$day"
test -z "$(ls -A "$day")" || { echo "$day has files; name another folder, or remove it" >&2; exit 1; }
cd "$day"

step() { printf '\n== %s\n' "$*"; }

step "A crawl and questions"  # docs/quickstart.md
answermill sample --no-run --out sample
head -n 24 sample/questions.jsonl > questions.jsonl

step "WQA's recipe, for four people, two of whom judge each third sentence"  # docs/annotation.md: Annotate
answermill recipe wqa --pages sample/web.warc.gz --questions questions.jsonl --out mine
cat > annotate.toml <<'SECTION'
[annotate]
# As Label Studio, a sheet, Prodigy and Argilla export them.
people = ["anna@example.org", "ben", "marks-chris", "8d3cbe4d-dana"]
annotators = 2
overlap_share = 0.35
top = 4
random = 1

SECTION
awk '/^\[annotate\]/ { while ((getline line < "annotate.toml") > 0) print line; skip = 1; next }
     /^\[/ { skip = 0 }
     /^depth/ { $0 = "depth = 20" }
     !skip' mine/wqa.toml > mine/job.toml
answermill run mine/job.toml --out run --dry-run
answermill run mine/job.toml --out run
ls run/packs/label-studio/anna@example.org          # preview.html: read it before the pack is handed out

step "Two of the four have sent their exports: how far are we?"  # docs/annotation.md: Collect; docs/report.md
python3 "$here/people.py" answer run sample exports
answermill collect run exports/anna.json exports/ben.csv
answermill report run                               # run/annotation.html

step "All four: agreement, and what they differ on"  # docs/annotation.md: Collect
answermill collect run exports/anna.json exports/ben.csv exports/chris.jsonl exports/dana.json --resolve adjudicate

step "Somebody decides what is open"  # docs/annotation.md: Collect
python3 "$here/people.py" decide run sample exports
answermill collect run exports/*.json exports/*.csv exports/*.jsonl --resolve adjudicate --adjudicator judge
answermill report run

step "A second batch: more sentences of the same questions"  # docs/annotation.md: Annotate
answermill annotate mine/job.toml --out run --set annotate.batch=2 annotate.top=5
ls run/batches/2/packs

step "From sentences to passages and pages, and a data set of them"  # docs/annotation.md: Propagate; docs/annotation.md: Publish
answermill propagate mine/job.toml --out run
answermill passages run --out data
answermill publish data --out set --run run --name "Field questions" --licence "CC BY 4.0" \
    --sources "the sample's pages: Apache-2.0" "the sample's questions: Apache-2.0"
answermill verify run                               # docs/operating.md: Is it still what was written?

step "On what does it rest, and what would be sent?"  # docs/annotation.md: Licences; docs/annotation.md: Give it away
answermill materials set
answermill push set OWNER/NAME --dry-run
