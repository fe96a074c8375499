"""NVIDIA's CUDA samples, straight on the software GPU and forwarded to one.

Nothing of theirs is in this repository: whoever runs them fetches them, at the commit that the list names.
"""
