"""A headless Chromium, driven by its DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import websocket

BINARY = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
PATIENCE = 60  # seconds for an answer


class Page:
    """One tab. `problems` has what the console and the log said of errors, `requests` every address asked for."""

    def __init__(self, address):
        self.socket = websocket.create_connection(address, timeout=PATIENCE, suppress_origin=True)
        self.last = 0
        self.problems, self.requests, self.loaded = [], [], False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """The result of a command; what happens meanwhile is noted. Raises RuntimeError where the browser refuses."""
        self.last += 1
        self.socket.send(json.dumps({"id": self.last, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            self.note(message)
            if message.get("id") == self.last:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def note(self, message):
        what, params = message.get("method"), message.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(params["exceptionDetails"]))
        elif what == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(params["entry"]["text"])
        elif what == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(params["args"]))
        elif what == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif what == "Page.loadEventFired":
            self.loaded = True

    def open(self, path, width=1440, height=900, dark=False):
        """Loads a file, or an address, in a window of that size, and waits until it has drawn."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.problems.clear()
        self.requests.clear()
        self.loaded = False
        url = path if str(path).startswith("http") else Path(path).resolve().as_uri()
        went = self.call("Page.navigate", url=url)
        if "errorText" in went:
            raise RuntimeError(f"{path}: {went['errorText']}")
        end = time.monotonic() + PATIENCE
        while not self.loaded:
            if time.monotonic() > end:
                raise RuntimeError(f"{path} did not load within {PATIENCE} s")
            self.call("Runtime.evaluate", expression="1")
        self.frame()

    def evaluate(self, expression):
        """The value of an expression, or of its promise."""
        done = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise RuntimeError(f"{expression}: {json.dumps(done['exceptionDetails'])}")
        return done["result"].get("value")

    def frame(self):
        """Waits until what was asked for is drawn."""
        self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def key(self, name, text=None):
        """Presses a key: "ArrowDown", "Enter", or a character."""
        text = name if text is None and len(name) == 1 else text
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39}
        kind = {"key": name, "windowsVirtualKeyCode": codes.get(name, ord(name[0].upper()))}
        if text or name == "Enter":
            kind["text"] = text or "\r"
        self.call("Input.dispatchKeyEvent", type="keyDown", **kind)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name)
        self.frame()

    def type(self, text):
        for character in text:
            self.key(character)

    def click(self, x, y, count=1):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)
        self.frame()

    def wheel(self, x, y, down):
        self.call("Input.dispatchMouseEvent", type="mouseWheel", x=x, y=y, deltaX=0, deltaY=down)
        self.frame()

    def screenshot(self, path, whole=False):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(shot["data"]))


@contextlib.contextmanager
def chromium():
    """A browser with one page, of a profile of its own; gone at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [BINARY, "--headless=new", "--disable-gpu", "--no-first-run", "--disable-extensions"]
        command += ["--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"]
        if os.geteuid() == 0:
            command.insert(1, "--no-sandbox")  # which root cannot have
        with open(f"{profile}/log", "wb") as log:
            browser = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield Page(address_of(browser, Path(profile)))
        finally:
            browser.terminate()
            try:
                browser.wait(20)
            except subprocess.TimeoutExpired:
                browser.kill()
                browser.wait()


def address_of(browser, profile):
    """Where the browser's page listens."""
    end = time.monotonic() + PATIENCE
    file = profile / "DevToolsActivePort"
    while time.monotonic() < end:
        if browser.poll() is not None:
            break
        if file.exists() and len(lines := file.read_text().split("\n")) >= 2:
            return page_of(lines[0], lines[1])
        time.sleep(0.05)
    raise RuntimeError(f"Chromium did not start:\n{(profile / 'log').read_text(errors='replace')}")


def page_of(port, path):
    socket = websocket.create_connection(f"ws://127.0.0.1:{port}{path}", timeout=PATIENCE, suppress_origin=True)
    try:
        socket.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
        while (answer := json.loads(socket.recv())).get("id") != 1:
            pass
        page = next(t for t in answer["result"]["targetInfos"] if t["type"] == "page")
        return f"ws://127.0.0.1:{port}/devtools/page/{page['targetId']}"
    finally:
        socket.close()
