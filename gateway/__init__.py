"""Who may call an endpoint, and how? Also the event and log streams of the live process."""
