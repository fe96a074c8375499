"""On ``PYTHONPATH`` of each process under the runtime, and of no other (``remoting/environment.py``).

What is here runs in the student's Python, which may be another than the project's, and older: the standard
library alone, and no ``remoting`` beside it. docs/design/frameworks.md says what it does.
"""
