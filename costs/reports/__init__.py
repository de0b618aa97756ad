"""Who spent how much, on what and when? Sums of the ledger; nothing here writes it."""
