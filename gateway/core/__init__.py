"""Reason: pure, synchronous, standard library only. Nothing here does I/O or reads a clock."""
