"""How are prices, the ledger and what was spent asked for and told in REST?"""
