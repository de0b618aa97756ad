"""With what? Clock, ids, money, errors, tasks, the REST conventions, platform settings."""
