"""The C++ side: differential_server, started anew when it crashes."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("CAMSHAFT_DIFFERENTIAL_SERVER", ROOT / "build/release/tests/differential_server"))
SECONDS = 60  # of processor time, for one graph


class Failure(Exception):
    """What Camshaft said instead of results, or how it died."""

    def __init__(self, stage, code, message):
        super().__init__(f"{stage}: {message} ({code})")
        self.stage, self.code, self.message = stage, code, message


class Server:
    def __init__(self):
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = tempfile.TemporaryDirectory(prefix="camshaft-differential-", dir=memory)
        self.process = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.stdin.close()
            self.process.wait()
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def ask(self, *fields):
        if self.process is None:
            self.process = subprocess.Popen(
                [BINARY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                errors="replace", env={**os.environ, "TMPDIR": self.folder.name},
            )  # fmt: skip
        self.begun, self.used = processor_seconds(self.process.pid), None
        signal.signal(signal.SIGALRM, self.watch)
        signal.alarm(SECONDS)
        try:
            self.process.stdin.write("\t".join(fields) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except (BrokenPipeError, TimeoutError):
            answer = ""
        finally:
            signal.alarm(0)
        if not answer:
            if self.process.poll() is None:
                try:
                    self.process.wait(1)
                except subprocess.TimeoutExpired:
                    self.process.kill()
                    self.process.wait()
                    self.process = None
                    raise Failure("crash", "time", f"no answer after {SECONDS} s of processor time") from None
            status = self.process.returncode
            self.process = None
            how = signal.strsignal(-status) if status < 0 else f"exit status {status}"
            raise Failure("crash", "signal", how)
        if not answer.startswith("ok"):
            raise Failure(*answer.rstrip("\n").split("\t")[1:4])

    def watch(self, *_):
        """The clock decides nothing, as the machine may be busy: ends what has had its time of a processor, and what has
        had none of it for as long, as it waits for itself."""
        used = processor_seconds(self.process.pid) - self.begun
        if used >= SECONDS or used == self.used:
            raise TimeoutError
        self.used = used
        signal.alarm(SECONDS)

    def write_inputs(self, feeds):
        for k, feed in enumerate(feeds):
            arrays = {n: a.astype("U") if a.dtype == np.object_ else a for n, a in feed.items()}
            np.savez(self.path(f"in{k}.npz"), **arrays)

    def read(self, name):
        with np.load(self.path(name)) as arrays:
            return {n: arrays[n] for n in arrays.files}

    def write_model(self, model):
        with open(self.path("model.onnx"), "wb") as file:
            file.write(model.SerializeToString())

    def run(self, model, feeds, verify=False, threads=1):
        """One {"engine:NAME": array, "reference:NAME": array} for each feed, built and run by so many threads. Raises
        Failure."""
        self.write_model(model)
        self.write_inputs(feeds)
        files = [part for k in range(len(feeds)) for part in (self.path(f"in{k}.npz"), self.path(f"out{k}.npz"))]
        self.ask("run", self.path("model.onnx"), str(int(verify)), str(threads), *files)
        return [self.read(f"out{k}.npz") for k in range(len(feeds))]

    def spread(self, model, feed):
        """{NAME: how far rounding alone moves each element}."""
        self.write_model(model)
        self.write_inputs([feed])
        self.ask("spread", self.path("model.onnx"), self.path("in0.npz"), self.path("spread.npz"))
        return self.read("spread.npz")


def processor_seconds(pid):
    """What the process has taken; 0 when it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")  # utime and stime
