"""The only package that talks to the cluster. Its pure modules (errors, kinds, labels, names, quantities) are
for all.
"""

from __future__ import annotations
