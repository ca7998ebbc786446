"""The control plane: looking at effects and policies, deciding what only a person can."""
