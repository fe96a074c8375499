"""A class begins: students log in, start a server and a GPU kernel and run a cell, all within minutes.

``python -m benchmarks.lab_load --students 100 --within 180``. Everything is the lab that ``make up`` runs:
hub, proxy, controller, agent, software GPUs, single-user servers, kernels. Only the students are played, over
HTTP and websockets through the proxy as a browser would (``hub_config/lab/student.py``). The pool has exactly
room for them, and each keeps the slice until all have run their cell: nobody may be refused, and nobody lost.

``plan`` says who comes when, ``big_lab`` starts a lab for so many, ``visits`` plays a student, ``loop_watch``
runs in the lab's processes and sees what holds their event loops up, ``loops`` reads what it saw, ``shares``
counts processor time and memory, ``report`` prints.
"""
