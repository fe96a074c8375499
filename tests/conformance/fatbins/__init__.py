"""Loads every kernel of the fat binaries in a program's files, and tells which are refused, and why.

What frameworks ship: TensorFlow's, XLA's, CuPy's and torchvision's libraries have PTX in fat binaries.
"""
