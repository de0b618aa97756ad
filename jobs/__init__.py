"""How does a training run go? Its spec, manifests, status, adapter, services, REST and pages."""
