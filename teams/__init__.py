"""Who: users, teams, memberships, tokens, permissions and the audit trail."""
