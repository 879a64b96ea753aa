"""Stores and brokers of a cluster: PostgreSQL, NATS JetStream and FastStream's brokers.

Each module needs the library of its engine; an extra of the same name installs it.
"""
