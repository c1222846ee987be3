"""Releases and their runs on a cluster, over its Kubernetes API and Helm. Nothing here knows of the command line."""
