"""The table: which signal means what, and what to do about it? Pure; a module for each group of rows."""
