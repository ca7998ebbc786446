"""Hot reload of policies: cheap to ask, atomic, the last good set kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path

from gateway.core.errors import PolicyError
from gateway.core.policy import PolicySet
from gateway.wire.policy_complaint import Complaint
from gateway.wire.policy_file import Loaded, load_policies, policy_files

_Seen = dict[Path, tuple[int, int, int]]


class Reloader:
    """Watches one folder and the secret files that its policies name.

    `check` only looks: the caller decides whether a good new set is adopted. `complaints` are
    those of the last try if it failed; `warnings` those of the last set that loaded.
    """

    complaints: tuple[Complaint, ...]
    warnings: tuple[Complaint, ...]
    current: PolicySet

    def __init__(
        self, folder: Path, env: Mapping[str, str], today: Callable[[], date] | None = None
    ) -> None:
        """Load the folder. Raises PolicyError with every complaint if it cannot be used."""
        self._folder = folder
        self._env = env
        self._today = today
        self._secret_files: frozenset[Path] = frozenset()
        self._seen: _Seen = {}
        self.warnings = ()
        self._has_begun = False
        first = self.force()
        if first is None:
            raise PolicyError("\n".join(str(complaint) for complaint in self.complaints))
        self.current = first
        self._has_begun = True

    def check(self) -> PolicySet | None:
        """Return a new set if anything changed and all of it is good."""
        return None if self._look() == self._seen else self.force()

    def force(self) -> PolicySet | None:
        """Load the folder whether it changed or not; None if it cannot be used."""
        # Looked at before it is read: a change made meanwhile is seen at the next check.
        seen = self._look()
        loaded = self._load()
        gone = self._secret_files - frozenset(loaded.secret_files)
        # A file that is not understood may still name the secrets that it named before.
        kept = self._secret_files if loaded.policies is None else frozenset[Path]()
        self._secret_files = kept | frozenset(loaded.secret_files)
        new = {path: file_stamp(path) for path in self._secret_files - seen.keys()}
        left = gone - self._secret_files
        self._seen = {path: stamp for path, stamp in seen.items() if path not in left} | new
        if loaded.policies is None:
            self.complaints = loaded.complaints
            return None
        self.complaints = ()
        self.warnings = loaded.warnings
        return loaded.policies

    def adopt(self, policies: PolicySet) -> None:
        """Make `policies` the current set."""
        self.current = policies

    def _load(self) -> Loaded:
        try:
            loaded = load_policies(
                self._folder, env=self._env, today=self._today() if self._today else None
            )
        except PolicyError as error:
            return self._refused(str(error))
        if self._has_begun and not loaded.files:
            # A volume that went away or a deploy half done, and hardly the wish to refuse all.
            return self._refused(
                "every policy file is gone; what was in force stays. Put the files back, or stop "
                "the gateway if nothing is to pass"
            )
        return loaded

    def _refused(self, message: str) -> Loaded:
        return Loaded(None, (Complaint(str(self._folder), 1, 1, "error", message),))

    def _look(self) -> _Seen:
        try:
            watched = {*policy_files(self._folder), *self._secret_files}
        except PolicyError:
            watched = set(self._secret_files)
        return {path: file_stamp(path) for path in watched}


def file_stamp(path: Path) -> tuple[int, int, int]:
    """Return what changes when the file does; zeros where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
