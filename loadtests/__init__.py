"""Load tests and measurements. Run from the repository's root: `python -m loadtests.bench`."""

from __future__ import annotations
