"""The jobs: engines that carry work to workers, Parquet folders that they meet in, and the command line."""

import os

# Set before torch is imported: threads that spin while they wait for one another slow each other down several
# times over as soon as another process wants the same cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
