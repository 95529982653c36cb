"""camshaft top: what it prints, what it shows in a terminal, and what it says where there is nothing to show."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time

import pytest
from serving import BINARY, PATIENCE, serving, write_identity
from test_http_access import certificates

REQUEST = {"inputs": [{"name": "INPUT0", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    """A server that is asked all the time, of one model that runs and one that cannot be loaded."""
    folder = tmp_path_factory.mktemp("repository")
    write_identity(folder, "fine", "FP32", ["n", "m"])
    (folder / "broken/1").mkdir(parents=True)
    (folder / "broken/1/model.onnx").write_bytes(b"no model")
    stopping = threading.Event()
    with serving(folder, "--exit-on-error=false", "--strict-readiness=false") as server:

        def ask():
            while not stopping.wait(0.01):
                server.request("POST", "/v2/models/fine/infer", json.dumps(REQUEST))

        thread = threading.Thread(target=ask)
        thread.start()
        yield server
        stopping.set()
        thread.join()


def top(server, *options, **more):
    url = f"--url=http://{server.http}" if server else "--url=http://127.0.0.1:1"
    return subprocess.run([BINARY, "top", url, *options], capture_output=True, text=True, timeout=PATIENCE, **more)


def test_once(watched):
    done = top(watched, "--once", "--interval=0.5")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("camshaft ") and ", ready, up " in lines[0]
    assert re.search(r"[1-9][\d.]* requests/s", lines[1])
    rows = {line.split()[0]: line for line in lines[4:] if line.strip()}
    assert re.search(r"^fine 1 +READY +\d+ +[1-9][\d.]* ", rows["fine"])
    assert "DOWN" in rows["broken"]
    assert "LAST ERRORS" in lines and "\x1b" not in done.stdout


def test_json(watched):
    figures = json.loads(top(watched, "--once", "--json", "--interval=0.5").stdout)
    assert figures["ready"] and 0.4 < figures["seconds"] < 60
    assert figures["resident_bytes"] == pytest.approx(watched.memory(), rel=0.3)
    (broken, fine) = sorted(figures["models"], key=lambda model: model["name"])
    assert broken["state"] == "UNAVAILABLE" and broken["reason"]
    assert fine["requests_per_second"] > 0 and 0 < fine["p50_us"] <= fine["p99_us"]
    assert fine["batch"] == 1 and sum(fine["runs_by_batch"].values()) > 0


def test_json_goes_on_until_nobody_reads(watched):
    command = [BINARY, "top", f"--url={watched.http}", "--json", "--interval=0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        looks = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert looks[0]["uptime_s"] < looks[1]["uptime_s"] < looks[2]["uptime_s"]
        process.stdout.close()
        assert process.wait(PATIENCE) != 0


class TerminalOf:
    """A program in a terminal of its own."""

    def __init__(self, *command, columns=100, rows=20):
        self.process, self.screen = None, ""
        child, self.end = pty.fork()
        if child == 0:
            os.environ |= {"LC_ALL": "C.UTF-8", "TERM": "xterm"}
            os.execv(str(command[0]), [str(part) for part in command])
        self.child = child
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.end, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def wait_for(self, pattern):
        """What was drawn last, when the pattern is in it."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if select.select([self.end], [], [], 0.1)[0]:
                with contextlib.suppress(OSError):  # the program has ended
                    self.screen += os.read(self.end, 65536).decode(errors="replace")
            drawn = self.screen.rsplit("\x1b[H", 1)[-1]
            if re.search(pattern, drawn):
                return drawn
        raise AssertionError(self.screen[-3000:])

    def type(self, keys):
        os.write(self.end, keys.encode())

    def wait(self):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                if select.select([self.end], [], [], 0.05)[0]:
                    self.screen += os.read(self.end, 65536).decode(errors="replace")
            done, status = os.waitpid(self.child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
        os.kill(self.child, signal.SIGKILL)
        raise AssertionError("it does not end")


def test_in_a_terminal(watched):
    terminal = TerminalOf(BINARY, "top", f"--url=http://{watched.http}", "--interval=0.3")
    drawn = terminal.wait_for(r"fine 1 +READY +\d+ +[1-9]")
    assert "\x1b[?1049h" in terminal.screen and "MODEL" in drawn
    terminal.wait_for("[▁▂▃▄▅▆▇█]")
    terminal.type("p")
    terminal.wait_for("paused")
    terminal.type("p")
    terminal.resize(60, 10)
    drawn = terminal.wait_for("MODEL +STATE +WAITING")
    assert "RUN" not in terminal.wait_for("fine 1")  # there is no room for it
    terminal.type("q")
    assert terminal.wait() == 0
    assert terminal.screen.rstrip().endswith("\x1b[?1049l")  # what was there before is there again


def test_a_signal_leaves_the_terminal_as_it_was(watched):
    terminal = TerminalOf(BINARY, "top", f"--url=http://{watched.http}")
    terminal.wait_for("fine 1")
    os.kill(terminal.child, signal.SIGTERM)
    assert terminal.wait() == 0
    assert terminal.screen.rstrip().endswith("\x1b[?1049l")


def test_it_waits_for_a_server_that_is_started_again(tmp_path):
    write_identity(tmp_path, "fine", "FP32", ["n", "m"])
    with serving(tmp_path) as server:
        terminal = TerminalOf(BINARY, "top", f"--url=http://{server.http}", "--interval=0.2", columns=160)
        terminal.wait_for("fine 1")
    terminal.wait_for("no server answers at")
    with serving(tmp_path, f"--http-port={server.ports['HTTP']}"):
        terminal.wait_for(r"(?s)^((?!no server).)*fine 1")
        terminal.type("q")
        assert terminal.wait() == 0


def test_what_is_wrong(watched, tmp_path):
    gone = top(None, "--once")
    assert gone.returncode == 1 and "no server answers at http://127.0.0.1:1" in gone.stderr
    for options, message in (
        (["--url=ftp://x"], "neither http:// nor https://"),
        (["--url=http://x:y"], "is not where a server is"),
        (["--intervall=1"], "intervall"),
        (["--interval=0"], "interval"),
        (["--token-file=/nonexistent"], "no token"),
        (["--client-cert=x"], "--client-key"),
    ):
        wrong = top(watched, "--once", *options) if "--url" not in options[0] else subprocess.run(
            [BINARY, "top", *options], capture_output=True, text=True
        )  # fmt: skip
        assert wrong.returncode == 2 and message in wrong.stderr, (options, wrong.stderr)
    metrics = subprocess.run(
        [BINARY, "top", "--once", f"--url=127.0.0.1:{watched.ports['metrics']}"], capture_output=True, text=True
    )
    assert metrics.returncode == 1 and "no figures to show" in metrics.stderr


def test_tokens(tmp_path):
    write_identity(tmp_path / "models", "fine", "FP32", ["n", "m"])
    (tmp_path / "tokens").write_text("secret\n")
    (tmp_path / "wrong").write_text("other\n")
    with serving(tmp_path / "models", f"--token-file={tmp_path / 'tokens'}") as server:
        refused = top(server, "--once", "--interval=0.1")
        assert refused.returncode == 1 and "asks for a token: --token-file" in refused.stderr
        assert top(server, "--once", "--interval=0.1", f"--token-file={tmp_path / 'wrong'}").returncode == 1
        assert "fine 1" in top(server, "--once", "--interval=0.1", f"--token-file={tmp_path / 'tokens'}").stdout


def test_the_command_knows_it():
    command = BINARY.parents[1] / "tools/camshaft"
    if not command.exists():
        pytest.skip("the command is not built")
    assert "--interval" in subprocess.run([command, "top", "--help"], capture_output=True, text=True, check=True).stdout
    assert " top " in subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout


def test_tls(tmp_path):
    folder = certificates(tmp_path)
    write_identity(tmp_path / "models", "fine", "FP32", ["n", "m"])
    files = {name: folder / f"{name}.pem" for name in ("server", "client", "ca")}
    flags = [f"--http-server-cert={files['server']}", f"--http-server-key={folder / 'server.key'}"]
    flags += [f"--http-root-cert={files['ca']}", "--http-use-ssl-mutual=true", "--metrics-port=0"]
    with serving(tmp_path / "models", *flags) as server:

        def ask(*options):
            command = [BINARY, "top", f"--url=https://{server.http}", "--once", "--interval=0.1", *options]
            return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

        own = [f"--client-cert={files['client']}", f"--client-key={folder / 'client.key'}"]
        shown = ask(f"--root-cert={files['ca']}", *own)
        assert "fine 1" in shown.stdout, shown.stderr
        for options in (own, [f"--root-cert={files['ca']}"]):  # an authority that nobody knows, and no certificate
            refused = ask(*options)
            assert refused.returncode == 1 and "no server answers" in refused.stderr
        assert ask(f"--root-cert={folder / 'san'}").returncode == 2
