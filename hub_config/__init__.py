"""A JupyterHub configuration that runs as it stands, and the runner of the services around it."""
