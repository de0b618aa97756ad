"""What have the pods written? Collected while they run, kept when they are gone."""
