#!/bin/sh
# A night's run: done, verified, compared with the last good one, and published if it is not worse.
#
#   JOB=job.toml RUNS=/data/runs sh night.sh            all stages, one after the other
#   JOB=job.toml RUNS=/data/runs sh night.sh compare    one of them: run, verify, compare, publish, retain
#
# RUNS/NIGHT is the run, RUNS/good a link to the last good one. The exit code is that of the command that failed; 3 says that the
# run is worse than the last good one by more than MARGIN: then it is not published, and RUNS/good stays. The same command goes on
# where it was.
set -eu

: "${JOB:?the job file; it has [propagate], whose labels the comparison needs}" "${RUNS:?the folder of the runs}"
NIGHT=${NIGHT:-$(date -u +%Y-%m-%d)}    # name of the run; set it, so that a run that is resumed after midnight keeps its name
KEEP=${KEEP:-7}                         # runs that stay, the newest first; the good one stays besides
METRIC=${METRIC:-P@1}
MARGIN=${MARGIN:-0.02}                  # by which a run may be worse
METRICS=${METRICS:-}                    # file for node_exporter, e.g. /var/lib/node_exporter/answermill.prom
run=$RUNS/$NIGHT good=$RUNS/good

stage() {
    case $1 in
    run)
        mkdir -p "$RUNS"
        answermill run "$JOB" --out "$run" --log-format json ${METRICS:+--metrics "$METRICS"}
        answermill evaluate "$run/scored" --labels "$run/labels/sentences" --questions "$run.scores.parquet"
        ;;
    verify)
        answermill verify "$run"
        ;;
    compare)
        [ ! -e "$good" ] || [ "$(readlink "$good")" = "$NIGHT" ] ||
            answermill compare "$RUNS/$(readlink "$good").scores.parquet" "$run.scores.parquet" --metric "$METRIC" --margin "$MARGIN"
        ;;
    publish)
        ln -sfn "$NIGHT" "$good.new"
        mv -fT "$good.new" "$good"      # at once: who opens RUNS/good sees the former run or this one
        ;;
    retain)
        for old in $(cd "$RUNS" && ls -d ????-??-?? | sort -r | tail -n "+$((KEEP + 1))"); do
            [ "$old" = "$(readlink "$good")" ] || rm -rf "${RUNS:?}/$old" "$RUNS/$old.scores.parquet"
        done
        ;;
    *)
        echo "night.sh: no stage $1; the stages are run, verify, compare, publish, retain" >&2
        exit 2
        ;;
    esac
}

for each in ${*:-run verify compare publish retain}; do
    stage "$each"
done
