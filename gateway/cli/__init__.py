"""The front door for operators."""
