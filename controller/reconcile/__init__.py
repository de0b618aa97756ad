"""What has to be done next for one workload? observe → decide → act → record."""
