"""The lab pages: what students, instructors and admins see of the pool in their browsers.

A service of the hub that has no rights of its own: each request carries the visitor's token to the
controller, which decides. `app` runs it, `handlers` answer addresses and read what people type, `views` make
what is shown of what the controller tells, `templates` and `static` are what the browser gets, `texts` and
`wording` say everything in the visitor's language. docs/design/lab.md describes it.
"""
