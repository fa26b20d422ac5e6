"""The controller's decisions, one module per subject. Pure: the image and a request in, records and a reply out.

Nothing here changes the image: `runtime.py` appends the records, replays them, and lets the reply go once they are
committed. A refusal is part of the reply, per topic or resource, with a text that says what to do.
"""
