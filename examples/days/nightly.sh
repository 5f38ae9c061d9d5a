#!/bin/sh
# The day of an operator: a crawl comes each night, and a run of it is published only if it is not worse.
#
#   sh nightly.sh [FOLDER]        FOLDER, out/nightly if absent, must be new or empty
#
# The comment above each step names the page of the docs that teaches it.
set -eu

day=${1:-out/nightly}
mkdir -p "$day"
test -z "$(ls -A "$day")" || { echo "$day has files; name another folder, or remove it" >&2; exit 1; }
cd "$day"

step() { printf '\n== %s\n' "$*"; }

# ends_with CODE COMMAND...: the command must end with this exit code (docs/running.md: Exit codes).
ends_with() {
    expected=$1
    shift
    code=0
    "$@" || code=$?
    test "$code" -eq "$expected" || { echo "$* ended with $code, not $expected" >&2; exit 1; }
}

step "What is on this machine?"  # docs/running.md: What it needs
answermill doctor --out .

step "Pages of three nights, ten questions, their labels"  # docs/quickstart.md; docs/jobs.md: Inputs
answermill sample --no-run --out sample
mkdir -p crawl/2026-01-30 crawl/2026-01-31 crawl/2026-02-01
cp sample/web.warc.gz crawl/2026-01-30/
cp sample/web.warc.gz crawl/2026-01-31/
cat > crawl/2026-01-31/new.jsonl <<'PAGE'
{"id": "new", "url": "https://www.harbour-news.example/lock", "title": "The new sea lock", "text": "The new sea lock of the harbour was opened in May by the mayor. It is five hundred metres long and seventy metres wide, which makes it the largest of the coast. Ships wait there until the water inside is as high as the tide outside. It took six years to build, and the old lock beside it stays in use for smaller boats."}
PAGE
head -c 40000 sample/web.warc.gz > crawl/2026-02-01/web.warc.gz     # that night, a transfer breaks off
grep '"question_id": "q0' sample/questions.jsonl > questions.jsonl
awk -F '\t' 'NR == 1 || $1 ~ /^q0/' sample/labels.tsv > labels.tsv

step "A job for every night"  # docs/jobs.md: Dates, and the last good run
answermill recipe job --pages 'crawl/{date}' --questions questions.jsonl --labels labels.tsv
awk '/^depth/ { $0 = "depth = 20" } { print } /^\[(ingest|index)\]/ { print "since = \"latest\"" }' job.toml > job.new
mv job.new job.toml
answermill plan job.toml --explain-plan --set date=2026-01-30     # docs/running.md: What a run will take
answermill night job.toml --runs runs --night 2026-01-30 --dry-run

step "The first night"  # docs/schedulers.md
answermill night job.toml --runs runs --night 2026-01-30 --metrics answermill.prom
answermill status runs/good | head -n 1             # docs/operating.md: How far is it?
grep '^answermill_exit_code' answermill.prom        # docs/operating.md: Progress, logs and metrics

step "The second night is killed, and goes on"  # docs/running.md: Stopping and resuming
answermill night job.toml --runs runs --night 2026-01-31 > killed.log 2>&1 &
process=$!
until test -e runs/2026-01-31/retrieved/_manifest.json; do
    kill -0 "$process"
    sleep 0.1
done
kill -9 "$process"
wait "$process" || true
answermill status runs/2026-01-31 | head -n 1
answermill night job.toml --runs runs --night 2026-01-31 --metrics answermill.prom
answermill clean runs/2026-01-31                    # docs/operating.md: What may go?
answermill verify runs/2026-01-31                   # docs/operating.md: Is it still what was written?

step "The third night is refused, and somebody is told"  # docs/schedulers.md; docs/operating.md: When it fails
ends_with 3 answermill night job.toml --runs runs --night 2026-02-01 --metrics answermill.prom \
    --on-failure 'printf "%s: %s\n" "$ANSWERMILL_STAGE" "$ANSWERMILL_MESSAGE" > told.txt'
cat told.txt
grep '^answermill_exit_code' answermill.prom

step "In the morning"  # docs/operating.md: How were the nights?; docs/report.md: Two runs; docs/inspecting.md
answermill runs runs
answermill runs runs --json > runs.json
answermill status runs/good --json > status.json
answermill report runs/2026-01-30 runs/2026-01-31 --out compared
answermill ask runs/good "Why are there two high tides a day?" --answers 1
answermill explain runs/good q01 --first 3

step "Fewer pages were meant, after all: the refused night is accepted"  # docs/schedulers.md: A night
answermill night job.toml --runs runs --night 2026-02-01 --accept
answermill runs runs
