"""What did it cost, whom, and what of the capacity did nobody use? Pages of it; nothing here writes."""
