"""What is the portal, and how is it used? Pages to read; the code beside them writes some."""
