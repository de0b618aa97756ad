"""Where? The only package that talks to the cluster; its pure modules (errors, kinds, labels, names, quantities) are for all."""
