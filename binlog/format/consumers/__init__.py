"""The formats of consumer groups: the operations in a group's log, and the envelope of a message.

`operation` has the records that members of a group append to its log, with the tables of `group_layouts`; `message`
has the envelope that carries a key, headers, a delay and an expiry in front of a message's body.
"""
