"""What is there, and in which state? What runs and endpoints have alike, and what was observed of them."""
