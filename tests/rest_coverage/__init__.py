"""How much of what the OpenAPI document declares do the tests see? `make test` with `--rest-coverage=FILE`, then this as a command."""
