"""What ranks meet over: engines that compute one model together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from camshaft import _native

if TYPE_CHECKING:
    from camshaft._types import Capsule


class Communicator:
    """One rank's end, made by local(), join() or from_environment(), for Context.set_communicator(). What goes wrong on one
    rank ends it, and is an Error of all ranks: none waits for one that does not come.

    timeout: seconds that other ranks are waited for; 0: 300."""

    def __init__(self, communicator: Capsule) -> None:
        self._communicator = communicator

    @classmethod
    def local(cls, size: int, timeout: float = 0) -> list[Communicator]:
        """Of `size` ranks, for threads of this process."""
        return [cls(each) for each in _native.local_communicators(size, timeout)]

    @classmethod
    def join(cls, name: str, rank: int, size: int, timeout: float = 0) -> Communicator:
        """For processes of this machine and user: waits until `size` of them, one of each rank, have named the same, a file
        name without folders, which is free again then."""
        return cls(_native.join_communicator(name, rank, size, timeout))

    @classmethod
    def from_environment(cls, timeout: float = 0) -> Communicator:
        """The same by the variables RANK, WORLD_SIZE and MASTER_PORT, which torchrun sets."""
        return cls(_native.environment_communicator(timeout))

    @property
    def rank(self) -> int:
        return _native.communicator_rank(self._communicator)

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return _native.communicator_size(self._communicator)

    def abort(self, why: str) -> None:
        """Ends what all ranks do over it, now and later, with an Error of that message."""
        _native.abort_communicator(self._communicator, why)

    def __repr__(self) -> str:
        return f"<camshaft.Communicator of rank {self.rank} of {self.size}>"
