"""How is it put together? Settings, urls, processes, the admin site, the home page and the quota console."""
