"""The measured claims: `python -m benchmarks.NAME [--data FOLDER] [--save]`, each ending in one flat JSON object."""
