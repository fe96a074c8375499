"""A JupyterHub configuration that runs as it stands, and the runner of the services around it."""

if __name__ != "gpu_kernels.hub_config":
    raise ImportError("This package is imported as gpu_kernels.hub_config.")
