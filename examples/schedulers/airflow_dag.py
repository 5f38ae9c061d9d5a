"""An Airflow DAG of a night's run, one task. A copy of this file lies in Airflow's folder of DAGs.

The task runs where `answermill` is on PATH and the folders are the same. One that is killed goes on where it
was when it is tried again. A night that is refused ends with 3, and is looked at again as often as it is
tried: its steps are complete, and the last good run stays.
"""

from datetime import datetime, timedelta

from airflow.providers.standard.operators.bash import BashOperator
from airflow.sdk import DAG

with DAG(
    dag_id="answermill",
    description="A night's run, verified, compared with the last good one, and published",
    schedule="10 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
):
    BashOperator(
        task_id="night",
        bash_command="answermill night /data/job.toml --runs /data/runs --night {{ ds }} --log-format json",
        append_env=True,
        retries=3,
        retry_delay=timedelta(minutes=5),
    )
