"""What every app stands on: clock, ids, money, errors, tasks, log context, HTTP manners, rows all need."""
