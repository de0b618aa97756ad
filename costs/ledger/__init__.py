"""Who pays for which second? The only writers of usage and the ledger."""
