"""An Airflow DAG of a night's run: a task for each stage of night.sh. A copy of this file lies in Airflow's
folder of DAGs.

The tasks run where `answermill` is on PATH and RUNS is the same folder. `compare` ends with 3 if the run is
worse than the last good one: it is not tried again, and `publish` does not run. A task that is killed goes on
where it was when it is tried again.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

NIGHT_SH = "/opt/answermill/night.sh"
SETTINGS = {"JOB": "/data/job.toml", "RUNS": "/data/runs", "NIGHT": "{{ ds }}"}
STAGES = {"run": 3, "verify": 1, "compare": 0, "publish": 1, "retain": 1}
"""Stage → how often it is tried again."""

with DAG(
    dag_id="answermill",
    description="A night's run, verified, compared with the last good one, and published",
    schedule="10 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
) as dag:
    before = None
    for stage, retries in STAGES.items():
        task = BashOperator(
            task_id=stage,
            bash_command=f"sh {NIGHT_SH} {stage}",
            env=SETTINGS,
            append_env=True,
            retries=retries,
            retry_delay=timedelta(minutes=5),
        )
        if before is not None:
            before >> task
        before = task
