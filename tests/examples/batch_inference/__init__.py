"""How does a model go over a dataset? A kind of workload as one app, small enough to read: CONTRIBUTING's recipe, tried."""
