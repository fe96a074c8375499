"""JupyterHub spawners that give a server its course, its controller and its token scopes."""
