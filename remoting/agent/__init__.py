"""The daemon on a GPU server: finds GPUs, reports to the controller, starts a worker for each lease."""
