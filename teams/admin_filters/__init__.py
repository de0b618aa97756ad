"""Which rows does a list of the admin console show? Those from a day to another, and those of a name."""
