"""Who? Users, teams, memberships, tokens, the audit trail, permissions."""
