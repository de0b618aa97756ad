"""What all the cards were worth in a month: charged, idle, stranded, lost, saved by spot. For those who manage quotas."""
