"""The ranks of a built model, as they run: threads of this process, processes beside it, or those that torchrun started."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from camshaft import _native
from camshaft._engine import Engine, devices
from camshaft._errors import Error, InvalidArgumentError
from camshaft.llm._folder import check_build, check_description, engine_names, ranks_of, read_description

if TYPE_CHECKING:
    from camshaft._types import Capsule
    from camshaft._types import Path as AnyPath

BACKENDS = ("threads", "mp", "external_launcher")
READY = "ready"  # what a process says once it has loaded its engine
USUAL_TIMEOUT = 0.0  # the library's


class Started(NamedTuple):
    """What rank 0 has of the others."""

    engine: Engine
    others: list[Engine]  # of those in this process
    communicator: Capsule | None  # to those in others
    threads: int  # of each rank; 0: one for each core

    @contextlib.contextmanager
    def ended_by_errors(self) -> Iterator[None]:
        """Ranks in other processes end where what is done here fails: nobody tells them what to compute."""
        try:
            yield
        except BaseException as error:
            if self.communicator is not None:
                _native.abort_communicator(self.communicator, f"rank 0 has no model: {error}")
            raise


def start_ranks(
    folder: Path,
    description: dict[str, Any],
    device: str | None,
    tensor_parallel_size: int | None,
    backend: str | None,
    threads: int | None,
) -> Started:
    """description: of llm.json. backend: of BACKENDS, "threads" without it."""
    ranks = ranks_of(description, folder)
    if tensor_parallel_size is not None and tensor_parallel_size != ranks:
        raise InvalidArgumentError(
            f"tensor_parallel_size is {tensor_parallel_size}; {folder} was built for {ranks} (--tensor-parallel-size)"
        )
    if backend is not None and backend not in BACKENDS:
        raise InvalidArgumentError(f"distributed_executor_backend is {backend!r}; {', '.join(BACKENDS)} are possible")
    if ranks == 1:
        if backend not in (None, "threads"):
            raise InvalidArgumentError(
                f"distributed_executor_backend is {backend!r}, and {folder} was built for one rank"
            )
        return Started(engine_of(folder, description, 0, device), [], None, threads or 0)
    threads = threads or _shared_out(ranks)
    if backend == "mp":
        return _start_processes(folder, description, device, threads)
    engine = engine_of(folder, description, 0, device)
    if backend == "external_launcher":
        return Started(engine, [], _environment_communicator(is_first=True), threads)
    return Started(engine, [engine_of(folder, description, rank, device) for rank in range(1, ranks)], None, threads)


def _shared_out(ranks: int) -> int:
    """Threads of each rank: ranks compute at the same time, on the cores that the process may use."""
    cores = next(int(each["cores"]) for each in devices() if each["kind"] == "cpu")
    return max(cores // ranks, 1)


def run_rank(model: AnyPath, *, device: str | None = None, threads: int | None = None) -> None:
    """What the processes of all ranks but the first do, where torchrun starts them: computes with the LLM of rank 0, whose
    distributed_executor_backend is "external_launcher", until that is gone.

    model: the folder. threads: of this rank's engine; without it the cores of the process, shared out. Raises Error where a rank fails or dies."""
    folder = Path(os.fspath(model))
    communicator = _environment_communicator(is_first=False)
    _follow(folder, _native.communicator_rank(communicator), communicator, device, threads or 0)


def _follow(folder: Path, rank: int, communicator: Capsule, device: str | None, threads: int) -> None:
    description = read_description(folder)
    if rank >= (ranks := ranks_of(description, folder)):
        raise InvalidArgumentError(f"{folder} was built for {ranks} ranks, of which none is {rank}")
    threads = threads or _shared_out(ranks)
    _native.follow_ranks(engine_of(folder, description, rank, device)._engine, communicator, threads)


def _environment_communicator(*, is_first: bool) -> Capsule:
    rank = os.environ.get("RANK", "")
    if is_first and rank not in ("", "0"):
        raise InvalidArgumentError(f"RANK is {rank}: rank 0 has the LLM; camshaft.llm.run_rank() is for the others")
    if not is_first and rank == "0":
        raise InvalidArgumentError(
            'RANK is 0: this rank makes the LLM, with distributed_executor_backend="external_launcher"'
        )
    return _native.environment_communicator(USUAL_TIMEOUT)


def engine_of(folder: Path, description: dict[str, Any], rank: int, device: str | None) -> Engine:
    name = engine_names(ranks_of(description, folder))[rank]
    check_build(description, folder, name)
    engine = Engine(folder / name, device)
    if rank > 0 and engine.device.startswith("cuda:"):
        # A GPU of its own, as long as there are so many.
        count = sum(str(each.get("device", "")).startswith("cuda:") for each in devices())
        wanted = f"cuda:{(int(engine.device[5:]) + rank) % max(count, 1)}"
        engine = engine if wanted == engine.device else Engine(folder / name, wanted)
    check_description(description, engine, folder, name)
    return engine


def _start_processes(folder: Path, description: dict[str, Any], device: str | None, threads: int) -> Started:
    ranks, name = ranks_of(description, folder), f"llm-{os.getpid()}-{uuid.uuid4().hex}"
    processes = []
    try:
        for rank in range(1, ranks):
            command = [sys.executable, "-m", "camshaft.llm._rank_process", str(folder), name, str(rank)]
            command += ["--threads", str(threads), *(("--device", device) if device else ())]
            path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]).rstrip(
                os.pathsep
            )
            processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "PYTHONPATH": path},
                    start_new_session=True,  # Ctrl+C is rank 0's, which tells the others
                )
            )
        engine = engine_of(folder, description, 0, device)
        for rank, process in enumerate(processes, 1):
            assert process.stdout is not None
            if process.stdout.readline().strip() != READY:
                raise Error(f"{folder}: the process of rank {rank} has ended with {process.wait()}; it says why above")
        communicator = _native.join_communicator(name, 0, ranks, USUAL_TIMEOUT)
    except BaseException:
        for process in processes:
            process.kill()
            process.wait()
        raise
    threading.Thread(target=_reap, args=(processes,), name="camshaft.llm.ranks", daemon=True).start()
    return Started(engine, [], communicator, threads)


def _reap(processes: list[subprocess.Popen[str]]) -> None:
    """They end by themselves, once rank 0 is gone."""
    for process in processes:
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
