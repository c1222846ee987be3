"""One module per kind of Google Cloud resource; driver/gcp/prerequisites.py lists them."""
