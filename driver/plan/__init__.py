"""What a configuration needs and how fast it is, found with the real TPU compiler and without a TPU.

Nothing here imports click or JAX: the compiler runs in an environment and in processes
of its own (trainer/compile_server.py), reached through `session`.
"""
