"""The formats of a seal: the hash tree over a log's records, and the texts that are signed and exchanged.

`tree` has the hashes of RFC 6962, their proofs, and the checks of these; `note` the signed notes of C2SP, with their
keys; `checkpoint` the note that gives the root of a tree of some size, and the texts that carry one; `statement` the
notes about events other than appends; `policy` which witnesses must have signed; `state` the other files of a seal.
All are pure functions of bytes and hashes.
"""
