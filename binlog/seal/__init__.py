"""The seal of a log: a hash tree over its records, whose root is signed each second.

Anyone who has the public key and a later checkpoint can find out that a sealed log was cut or changed.  `begin_seal`
begins a seal, a `Sealer` adds the records and signs, `verify` compares the log with its seal, and `prove` and
`check_proof` show a single record to people who do not have the log.  Needs the extra `seal`.

`keys` signs and verifies; `commands` runs commands that sign, or that reach anchors.  `hash_store` keeps the tree,
`note_file` signed notes, `statements` the notes about events other than appends, and `folder` the other files;
`leaf_reader` reads the records with their places in the tree; `permissions` warns if writers may change the seal.
`sealing` and `verifying` are packages of their own; `proving`, `exporting`, `trust`, `waiting` and `status` have the
other functions for users.  `anchors` has the places that get checkpoints; `witness` is the other side, which signs
checkpoints of other logs.  binlog/format/seal has the bytes and the hashes.
"""

from binlog.format.seal.note import VerifierKey, parse_verifier_key
from binlog.format.seal.statement import Kind, Statement
from binlog.seal.anchors import Anchor, parse_anchor
from binlog.seal.commands import CommandKey
from binlog.seal.exporting import Exported, export_tiles
from binlog.seal.keys import Signer, SigningKey
from binlog.seal.proving import check_proof, prove, prove_consistency
from binlog.seal.sealing.elected import ElectedSealer
from binlog.seal.sealing.operating import branch, end_log, hold, prune, read_statements, release
from binlog.seal.sealing.sealer import Sealer, begin_seal
from binlog.seal.status import SealStat, stat_seal
from binlog.seal.trust import Trust
from binlog.seal.verifying.report import Finding, Report, Rule
from binlog.seal.verifying.verification import verify
from binlog.seal.waiting import wait
from binlog.seal.witness import Witness, WitnessAnswer, make_witness

__all__ = [
    "Anchor",
    "WitnessAnswer",
    "CommandKey",
    "ElectedSealer",
    "Exported",
    "Finding",
    "Kind",
    "Report",
    "Rule",
    "SealStat",
    "Sealer",
    "Signer",
    "SigningKey",
    "Statement",
    "Trust",
    "VerifierKey",
    "Witness",
    "begin_seal",
    "branch",
    "check_proof",
    "end_log",
    "export_tiles",
    "hold",
    "make_witness",
    "parse_anchor",
    "parse_verifier_key",
    "prove",
    "prove_consistency",
    "prune",
    "read_statements",
    "release",
    "stat_seal",
    "verify",
    "wait",
]
