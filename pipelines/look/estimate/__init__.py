"""Planning: what a job will take, before it is started."""
