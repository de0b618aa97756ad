"""What does the page of an endpoint show beside what every workload has? Figures, access, a request to try."""
