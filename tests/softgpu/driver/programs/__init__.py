"""Programs that run straight on a software GPU, each in a process of its own. Nothing in them knows of it."""
