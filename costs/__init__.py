"""What did it cost? Prices, usage intervals and the ledger."""
