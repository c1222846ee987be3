"""Train MaxText models with Ray Train on multislice Cloud TPUs: the program that drives the Helm chart."""
