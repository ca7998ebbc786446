"""The data plane: one way through, from the caller's request to the destination's answer."""
