"""Fencegate: a fencing reverse proxy between agent workers and HTTP destinations."""

from __future__ import annotations

__version__ = "0.3.0"
