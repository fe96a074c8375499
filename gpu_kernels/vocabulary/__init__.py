"""Words that parts share: roles in a course, its rules and properties, quotas, and when a class meets.

The controller decides by them, and hub, command line, lab pages and students' servers read or write them, of
which none imports the controller. Pure: imports ``units`` and ``errors`` alone.
"""
