"""How many planted faults do the tests find? A list drawn once, and what became of each: `make mutants`."""
