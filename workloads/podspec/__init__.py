"""What may be asked of a pod, and what does its template look like?"""
