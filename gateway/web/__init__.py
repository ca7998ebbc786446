"""HTTP furniture: who calls, what we say, what we count."""
