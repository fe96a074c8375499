"""The whole lab on one machine: hub, proxy, controller, agent; for `jupyter gpu lab`, `make demo` and tests.

`settings` says where everything is, `accounts` who may log in, `processes` and `supervisor` start, watch and
stop the services, `up` does that in the foreground, `student` and `kernel_channel` speak to them as a browser
does, `student_path` is the story that `make demo` tells as a table. Nothing here is needed by a hub that runs
`jupyterhub_config.py` by other means.
"""
