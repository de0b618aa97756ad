"""How is a model served? The spec, manifests, status, adapter, services, REST and pages of endpoints."""
