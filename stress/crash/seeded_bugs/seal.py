"""Seeded bugs of the seal."""

from __future__ import annotations

from stress.crash.seeded_bugs.seeded_bug import bug_in_function

_SEALER, _FOLDER, _STORE, _NOTES = (
    "binlog/seal/sealing/sealer.py",
    "binlog/seal/folder.py",
    "binlog/seal/hash_store.py",
    "binlog/seal/note_file.py",
)

BUGS = (
    bug_in_function(
        "seal-before-durable", "seal-power", "records are sealed before they are durable",
        _SEALER, "durable_ends",
        "else file.durable_end",
        "else file.tail",
    ),
    bug_in_function(
        "seal-hashes-not-synced", "seal-power", "a checkpoint is signed before its hashes are durable",
        _SEALER, "Sealer._sign",
        "self._store.sync()",
        "pass",
    ),
    bug_in_function(
        "seal-hash-names-not-synced", "seal-power", "a checkpoint is signed before the names of its hashes are durable",
        _STORE, "HashStore.sync",
        "self._directory.sync()",
        "pass",
    ),
    bug_in_function(
        "seal-state-not-synced", "seal-power", "an anchor has a checkpoint before the state is durable",
        _FOLDER, "SealFolder.write_state",
        "self.replace(STATE_FILE, state.pack())",
        'self.directory.write_new(".state", state.pack())\n'
        'os.rename(self.directory.file_path(".state"), self.directory.file_path(STATE_FILE))',
    ),
    bug_in_function(
        "seal-anchored-before-state", "seal-power", "an anchor has a checkpoint before the state is written",
        _SEALER, "Sealer._sign",
        "self._folder.write_state(state)",
        "self._anchoring.publish(note)\n"
        "self._folder.write_state(state)",
    ),
    bug_in_function(
        "seal-anchor-not-synced", "seal-power", "an anchor has a checkpoint that is not durable there",
        _NOTES, "NoteFile.append",
        "sync(fd, path)",
        "pass",
    ),
    bug_in_function(
        "seal-files-name-not-synced", "seal-power", "the state is durable, and the name of a file that it needs is not",
        _FOLDER, "SealFolder.write_files",
        "self.directory.sync()",
        "pass",
    ),
    bug_in_function(
        "seal-files-not-synced", "seal-power", "the state is durable before the first leaves of the log's files",
        _FOLDER, "SealFolder.write_files",
        "sync(fd, path)",
        "pass",
    ),
    bug_in_function(
        "seal-statements-not-synced", "seal-power", "a checkpoint counts statements that are not durable",
        _SEALER, "Sealer._sign",
        "self._statements.sync()",
        "pass",
    ),
    bug_in_function(
        "seal-checkpoint-before-state", "seal-kill", "a checkpoint can be seen before the state is written",
        _SEALER, "Sealer._sign",
        "self._folder.write_state(state)",
        "self._folder.write_checkpoint(note)\n"
        "self._folder.write_state(state)",
    ),
    bug_in_function(
        "seal-checkpoint-forgotten", "seal-kill", "a sealer that continues after a death does not write the checkpoint",
        _SEALER, "Sealer._open",
        "self._write_note(self._state.note)",
        "pass",
    ),
    bug_in_function(
        "seal-replaced-in-two-steps", "seal-kill", "the state and the checkpoint are removed before they are replaced",
        _FOLDER, "SealFolder.replace",
        'self.directory.rename(f".{name}", name)',
        "self.directory.remove(name)\n"
        'self.directory.rename(f".{name}", name)',
    ),
    bug_in_function(
        "seal-state-taken-too-early", "seal-faults", "a state that could not be written counts as written",
        _SEALER, "Sealer._sign",
        "self._folder.write_state(state)",
        "self._state, self._files = state, place.files\n"
        "self._folder.write_state(state)",
    ),
    bug_in_function(
        "seal-unsynced-statement-kept", "seal-faults", "a statement whose sync failed stays in the file",
        _NOTES, "NoteFile.append",
        "with suppress(BinlogError):\n"
        "    truncate(fd, size, path)\n"
        "raise",
        "raise",
    ),
    bug_in_function(
        "seal-leaves-of-a-failure-kept", "seal-faults", "records are added again to the hashes of a round that failed",
        _SEALER, "Sealer._add_some",
        "self._store = self._folder.hashes(place.size) if self._store.size != place.size else self._store",
        "pass",
    ),
)  # fmt: skip
