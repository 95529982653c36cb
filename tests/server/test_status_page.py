"""The page at /: that what it shows is so, in a browser, and that it asks for nothing but its own data."""

import json
import time

import browser
import pytest
from serving import serving, write_identity

REQUEST = {"inputs": [{"name": "INPUT0", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def page():
    if browser.BINARY is None:
        pytest.skip("there is no Chromium: `apt-get install chromium` brings one on Debian")
    with browser.chromium() as tab:
        yield tab


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A server of one model that runs, one that cannot be loaded, and one whose name is markup."""
    folder = tmp_path_factory.mktemp("repository")
    write_identity(folder, "fine", "FP32", ["n", "m"])
    write_identity(folder, HOSTILE.replace("/", ""), "FP32", ["n", "m"])
    (folder / "broken/1").mkdir(parents=True)
    (folder / "broken/1/model.onnx").write_bytes(b"no model")
    with serving(folder, "--exit-on-error=false", "--strict-readiness=false") as server:
        for _ in range(25):
            assert server.request("POST", "/v2/models/fine/infer", json.dumps(REQUEST))[0] == 200
        assert server.request("POST", "/v2/models/fine/infer", b"{}")[0] == 400
        yield server


def text(page, selector):
    return page.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")


def wait_for(page, condition):
    end = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        time.sleep(0.05)


@pytest.mark.parametrize("dark", (False, True))
def test_what_it_shows(page, shown, dark, tmp_path):
    page.open(f"http://{shown.http}/", dark=dark)
    wait_for(page, "document.querySelectorAll('#models tr').length === 3")
    rows = {
        row[0]: row
        for row in page.evaluate(
            "[...document.querySelectorAll('#models tr')].map(r => [...r.cells].map(c => c.innerText))"
        )
    }
    assert rows["fine 1"][1] == "READY" and rows["fine 1"][4] == "25"
    assert next(row for name, row in rows.items() if name.startswith("broken"))[1] == "UNAVAILABLE"
    assert page.evaluate("document.images.length") == 0  # names are texts
    assert text(page, "figcaption span") == "25 requests"
    bars = page.evaluate(
        "[...document.querySelectorAll('svg title')].map(t => +t.textContent.split(': ')[1]).reduce((a, b) => a + b)"
    )
    assert bars == 25
    assert "broken" in text(page, "#errors")
    assert page.problems == []
    assert {url.split("/", 3)[3] for url in page.requests} <= {"", "status.json"}
    page.screenshot(tmp_path / "page.png", whole=True)
    assert (tmp_path / "page.png").stat().st_size > 10_000


def test_narrow_windows_and_keys(page, shown):
    page.open(f"http://{shown.http}/", width=360, height=740)
    wait_for(page, "document.querySelectorAll('#models tr').length === 3")
    assert page.evaluate("document.documentElement.scrollWidth <= 360")
    page.key("p")
    assert page.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "true"
    page.key("Tab")
    assert page.evaluate("document.activeElement.id") == "pause"
    page.key("Enter")
    assert page.evaluate("document.getElementById('pause').getAttribute('aria-pressed')") == "false"


def test_it_asks_for_a_token(page, tmp_path):
    folder = tmp_path / "repository"
    write_identity(folder, "fine", "FP32", ["n", "m"])
    (tmp_path / "tokens").write_text("secret\n")
    with serving(folder, f"--token-file={tmp_path / 'tokens'}") as server:
        page.open(f"http://{server.http}/")
        wait_for(page, "!document.getElementById('login').hidden")
        page.evaluate("document.getElementById('token').focus()")
        page.type("secret")
        page.key("Enter")
        wait_for(page, "document.querySelectorAll('#models tr').length === 1")
        assert page.evaluate("document.getElementById('login').hidden")


def test_it_can_be_left_out(tmp_path):
    write_identity(tmp_path, "fine", "FP32", ["n", "m"])
    with serving(tmp_path, "--status-page=false") as server:
        assert server.request("GET", "/")[0] == 404 and server.request("GET", "/status.json")[0] == 404
