"""The trace that `camshaft bench --trace` writes: events that viewers of Chromium's format read, of the runs that were."""

import json
import time
from collections import defaultdict

import pytest
from camshaft_cli import camshaft

OPTIONS = ("--shapes", "x:2x3x48x192", "--warmup", 0)


@pytest.fixture(scope="module")
def traced(engines, tmp_path_factory):
    """The layers of an engine, the figures of a measurement, the trace of three runs, and how long it all took."""
    engine, path = engines.get("ppocr_cls"), tmp_path_factory.mktemp("trace") / "run.json"
    start = time.monotonic()
    done = camshaft("bench", engine, *OPTIONS, "--threads", 2, "--iterations", 3, "--trace", path, "--json")
    seconds = time.monotonic() - start
    layers = json.loads(camshaft("inspect", engine, "--json").stdout)["layers"]
    return layers, json.loads(done.stdout), json.loads(path.read_text()), seconds


def complete(trace):
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_it_has_the_fields_of_the_format(traced):
    _, _, trace, _ = traced
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M") and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        assert event["name"] and isinstance(event["args"], dict)
        if event["ph"] == "X":
            assert event["cat"] and event["ts"] >= 0 and event["dur"] >= 0
    named = {event["tid"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
    assert named == {event["tid"] for event in complete(trace)}
    assert trace["otherData"]["inputs"] == ["x: f32[2, 3, 48, 192]"]


def test_every_layer_of_each_run_is_there(traced):
    layers, _, trace, _ = traced
    runs = [event for event in complete(trace) if event["cat"] == "run"]
    assert [run["name"] for run in runs] == ["run 0", "run 1", "run 2"]
    by_run = defaultdict(list)
    for event in complete(trace):
        if event["cat"] != "run":
            by_run[event["args"]["run"]].append(event)
    in_a_run = [index for index, layer in enumerate(layers) if not layer["at_binding"]]
    for run in range(3):
        assert [event["args"]["layer"] for event in by_run[run]] == in_a_run
        for event in by_run[run]:
            layer, said = layers[event["args"]["layer"]], event["args"]
            assert event["name"] == (", ".join(layer["sources"]) or layer["name"])
            assert (event["cat"], said["tactic"], said["sources"]) == (layer["op"], layer["tactic"], layer["sources"])
            names = [text.split(": ")[0] for text in layer["outputs"]]
            assert [text.split(": ")[0] for text in said["outputs"]] == names
            sizes = [text.split("[", 1)[1].rstrip("]") for text in said["inputs"] if "[" in text]
            assert all(size.strip().isdigit() for text in sizes if text for size in text.split(",")), (
                "sizes are numbers"
            )
    first = by_run[0][0]["args"]
    assert any("[2, 3, 48, 192]" in text for text in first["inputs"])
    assert sum(event["args"]["flops"] for event in by_run[0]) == pytest.approx(traced[1]["flops"])


def test_events_of_a_track_follow_each_other_or_are_inside_one_another(traced):
    _, _, trace, _ = traced
    tracks = defaultdict(list)
    for event in complete(trace):
        tracks[event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
    rounding = 1e-3  # of microseconds in a double
    for spans in tracks.values():
        assert spans == sorted(spans, key=lambda span: span[0]), "in the order in which they began"
        open_spans = []
        for start, end in spans:
            while open_spans and open_spans[-1] <= start + rounding:
                open_spans.pop()
            assert not open_spans or end <= open_spans[-1] + rounding
            open_spans.append(end)


def test_times_are_microseconds(traced):
    """No run takes a tenth of the fastest that was measured beside them, and all of them no longer than the command."""
    _, figures, trace, seconds = traced
    runs = [event for event in complete(trace) if event["cat"] == "run"]
    assert min(run["dur"] for run in runs) > figures["latency_ms"]["min"] * 1000 / 10
    assert runs[-1]["ts"] + runs[-1]["dur"] < seconds * 1e6


def test_ten_runs_without_a_number(engine, tmp_path):
    done = camshaft("bench", engine, *OPTIONS, "--duration", 0.05, "--trace", tmp_path / "t.json")
    assert "trace       10 runs" in done.stdout
    trace = json.loads((tmp_path / "t.json").read_text())
    assert sum(event["cat"] == "run" for event in complete(trace)) == 10


def test_what_cannot_be_traced(engine, tmp_path):
    done = camshaft("bench", engine, *OPTIONS, "--trace", tmp_path / "t.json", "--on-request", check=False)
    assert done.returncode == 2 and "--trace and --on-request exclude each other" in done.stderr
    before = engine.read_bytes()
    done = camshaft("bench", engine, *OPTIONS, "--trace", engine, check=False)
    assert done.returncode == 2 and engine.read_bytes() == before
    done = camshaft("bench", engine, *OPTIONS, "--trace", tmp_path / "none/t.json", check=False)
    assert done.returncode != 0 and "none/t.json" in done.stderr
