"""What strangers may take of a process that listens: connections, descriptors, buffered bytes, log lines.

Shared by the pool controller, the lab pages and the agent. Knows nothing of leases, courses or pages.
"""
