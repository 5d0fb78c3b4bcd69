"""Keep the objects in one SQLite file: a call is one transaction, so that kill -9 leaves all of it or nothing."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from reconciler.cluster.local.lifecycle import has_ended, is_true
from reconciler.errors import ClusterUnreachable
from reconciler.model import Manifest

_SCHEMA = """CREATE TABLE IF NOT EXISTS objects
(id INTEGER PRIMARY KEY, kind TEXT, namespace TEXT, name TEXT, settled INTEGER, body TEXT,
 UNIQUE (kind, namespace, name))"""


@contextmanager
def transaction(folder: Path) -> Iterator[Objects]:
    """Have a folder's objects to oneself, among threads and processes; an exception takes all changes back.

    Raises ClusterUnreachable when the folder or a file in it can't be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with closing(sqlite3.connect(folder / "objects.sqlite", timeout=60, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("BEGIN IMMEDIATE")
            connection.execute(_SCHEMA)
            yield Objects(connection)
            connection.execute("COMMIT")
    except (OSError, sqlite3.Error) as error:
        raise ClusterUnreachable(f"the local cluster can't use its folder {folder}: {error}") from error


@dataclass(frozen=True, slots=True)
class Objects:
    """The objects inside one transaction, in the order of their creation."""

    connection: sqlite3.Connection

    def list(self, kind: str, *, unsettled: bool = False) -> list[Manifest]:
        """Return all objects of a kind, or only those on which work is left."""
        query = "SELECT body FROM objects WHERE kind = ? AND settled <= ? ORDER BY id"
        rows = self.connection.execute(query, (kind, not unsettled))
        return [json.loads(body) for (body,) in rows]

    def get(self, kind: str, name: str, namespace: str | None) -> Manifest | None:
        """Return one object, or None."""
        query = "SELECT body FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
        row = self.connection.execute(query, (kind, namespace or "", name)).fetchone()
        return json.loads(row[0]) if row else None

    def put(self, manifest: Manifest) -> Manifest:
        """Store an object under a new resourceVersion; one that is the same as before keeps its own."""
        kind, metadata = manifest["kind"], manifest["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        if manifest == self.get(kind, name, namespace):
            return manifest
        version = self.connection.execute("PRAGMA user_version").fetchone()[0] + 1
        self.connection.execute(f"PRAGMA user_version = {version}")
        stored = manifest | {"metadata": metadata | {"resourceVersion": str(version)}}
        self.connection.execute(
            "INSERT INTO objects (kind, namespace, name, settled, body) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (kind, namespace, name) DO UPDATE SET settled = excluded.settled, body = excluded.body",
            (kind, namespace, name, _settled(stored), json.dumps(stored)),
        )
        return stored

    def remove(self, manifest: Manifest) -> None:
        """Remove an object."""
        metadata = manifest["metadata"]
        query = "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
        self.connection.execute(query, (manifest["kind"], metadata.get("namespace", ""), metadata["name"]))


def _settled(manifest: Manifest) -> bool:
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    if "deletionTimestamp" in metadata:
        return False
    if manifest["kind"] == "Job":
        return is_true(status, "Complete") or is_true(status, "Failed")
    return manifest["kind"] != "Pod" or (has_ended(manifest) and not metadata.get("finalizers"))
