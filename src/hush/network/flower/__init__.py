"""A federation over Flower: a ServerApp, a ClientApp, and a worker on each node that starts JAX once and stays.

    ServerApp ── exchange ── SuperLink ── SuperNode ── ClientApp ── socket ── worker
                 (bytes)                               (light)                (the device)

`client_app` and what it imports must stay light: Flower starts a process for every message.
"""
