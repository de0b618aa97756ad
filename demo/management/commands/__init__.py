"""Which commands of manage.py belong to the demo? One module each."""
