"""How is a flavor written down in the admin console? Begun with what nodes report, typed in fields and rows."""
