"""The Google Cloud prerequisites: what a site needs, what is there, and what makes the one into the other."""
