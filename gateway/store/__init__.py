"""The ledger: what survives. Decisions are taken inside the transaction that records them."""
