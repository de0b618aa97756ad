"""Who may use how much? Quotas, cohorts, claims, changes of them, and receipts of what was decided."""
