"""How are workloads asked for and shown in the browser?"""
