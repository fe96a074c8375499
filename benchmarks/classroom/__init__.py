"""A class opens the same notebook: pictures of clothes, a small Keras network, 0.02 of a GPU each.

As many train at once as the machine's memory holds, or ``--at-once`` says; the others wait in the line, as
students do, and go on by themselves. Each must end with the accuracy that the CPU has.
"""
