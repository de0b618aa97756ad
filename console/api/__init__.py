"""How are workloads requested and shown in REST?"""
