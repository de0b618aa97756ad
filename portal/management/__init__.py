"""Which commands has manage.py?"""
