"""Which commands has manage.py? One module each."""
