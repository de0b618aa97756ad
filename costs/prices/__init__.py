"""What does a card cost? The only writers of prices."""
