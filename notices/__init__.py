"""Who is told? Subscriptions of people and teams, and what was sent to them: signed webhooks, chat messages, mail."""
