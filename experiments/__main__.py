"""List of the studies: `python -m experiments`."""

from __future__ import annotations

from pathlib import Path

from testing.listing import show

if __name__ == "__main__":
    show(Path(__file__).parent)
