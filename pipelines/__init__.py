"""The jobs: Beam pipelines that carry work to workers, Parquet folders that they meet in, and the command line."""
