"""What monitoring reads: the metrics' names and values, traces in files and for a collector."""

import http.server
import json
import re
import threading
import time

from serving import serving, write_identity

REQUEST = {"inputs": [{"name": "INPUT0", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}], "id": "mine"}
MODEL = 'name: "fine"\nmetric_tags { key: "team" value: "a\\"b" }\n'


SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


def metrics(server):
    """Values by name and labels. Every line must have the form that Prometheus' documentation gives."""
    status, headers, body = server.request("GET", "/metrics", port="metrics")
    assert status == 200 and headers["Content-Type"] == "text/plain; charset=utf-8"
    values, known = {}, set()
    for line in body.decode().splitlines():
        if line.startswith("# TYPE "):
            assert line.split()[3] in ("counter", "gauge", "histogram", "summary") and line.split()[2] not in known
            known.add(line.split()[2])
        elif not line.startswith("# HELP "):
            name, labels, value = SAMPLE.fullmatch(line).groups()
            assert name in known or re.sub("_(bucket|sum|count)$", "", name) in known, line
            unescaped = ((key, text.replace('\\"', '"')) for key, text in LABEL.findall(labels or ""))
            known_value = values.setdefault((name, tuple(sorted(unescaped))), float(value))
            assert known_value == float(value) or value == "NaN"
    return values


def test_metrics(tmp_path):
    write_identity(tmp_path, "fine", "FP32", ["n", "m"], MODEL)
    flags = ["histogram_latencies=true", "summary_latencies=true", "summary_quantiles=0.5:0.05,1:0.001"]
    with serving(tmp_path, *(f"--metrics-config={flag}" for flag in flags)) as server:
        labels = (("model", "fine"), ("team", 'a"b'), ("version", "1"))
        before = metrics(server)
        assert before["nv_inference_request_success", labels] == 0
        for _ in range(3):
            assert server.request("POST", "/v2/models/fine/infer", json.dumps(REQUEST))[0] == 200
        wrong = {"inputs": [{"name": "INPUT0", "shape": [1, 3], "datatype": "FP32", "data": [1, 2]}]}
        assert server.request("POST", "/v2/models/fine/infer", json.dumps(wrong))[0] == 400
        after = metrics(server)
        for name in ("nv_inference_request_success", "nv_inference_count", "nv_inference_exec_count"):
            assert after[name, labels] == 3, name
        for part in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
            assert after[f"nv_inference_{part}_duration_us", labels] >= 0
        assert after["nv_inference_request_duration_us", labels] > 0
        assert after["nv_inference_pending_request_count", labels] == 0
        assert (
            sum(
                value
                for (name, own), value in after.items()
                if name == "nv_inference_request_failure" and ("model", "fine") in own
            )
            == 1
        )
        assert after["nv_inference_first_response_histogram_ms_count", labels] == 3
        assert after["nv_inference_first_response_histogram_ms_bucket", tuple(sorted((*labels, ("le", "+Inf"))))] == 3
        assert after["nv_model_load_duration_secs", labels] > 0
        summary = "nv_inference_request_summary_us"
        assert after[f"{summary}_count", labels] == 3 and after[f"{summary}_sum", labels] > 0
        median, most = (after[summary, tuple(sorted((*labels, ("quantile", share))))] for share in ("0.5", "1"))
        assert 0 < median <= most <= 1.02 * after[f"{summary}_sum", labels]
        assert 0 <= after["nv_cpu_utilization", ()] <= 1
        assert after["nv_cpu_memory_total_bytes", ()] > after["nv_cpu_memory_used_bytes", ()] > 0
        assert server.request("GET", "/v2", port="metrics")[0] == 404
        assert server.request("POST", "/metrics", port="metrics")[0] == 405
        assert server.request("GET", "/metrics")[0] == 404


def test_traces_in_a_file(tmp_path):
    write_identity(tmp_path / "models", "fine", "FP32", ["n", "m"])
    file = tmp_path / "trace.json"
    with serving(
        tmp_path / "models",
        "--trace-config=rate=2",
        "--trace-config=level=TIMESTAMPS",
        f"--trace-config=triton,file={file}",
    ) as server:
        for _ in range(4):
            assert server.request("POST", "/v2/models/fine/infer", json.dumps(REQUEST))[0] == 200
        settings = json.loads(server.request("GET", "/v2/trace/setting")[2])
        assert settings["trace_file"] == str(file) and settings["trace_rate"] == "2"
        status, _, body = server.request("POST", "/v2/trace/setting", json.dumps({"trace_file": "/tmp/x"}))
        assert status == 501
    traces = json.loads(file.read_text())
    assert len(traces) == 4 and traces[0]["model_name"] == "fine" and traces[0]["request_id"] == "mine"
    times = {item["name"]: item["ns"] for item in traces[1]["timestamps"]}
    assert (
        times["REQUEST_START"]
        <= times["QUEUE_START"]
        <= times["COMPUTE_START"]
        <= times["COMPUTE_END"]
        <= times["REQUEST_END"]
    )


def test_traces_for_a_collector(tmp_path):
    write_identity(tmp_path, "fine", "FP32", ["n", "m"])
    taken = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            taken.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{collector.server_port}/v1/traces"
    with serving(
        tmp_path,
        "--trace-config=rate=1",
        "--trace-config=level=TIMESTAMPS",
        "--trace-config=mode=opentelemetry",
        f"--trace-config=opentelemetry,url={url}",
    ) as server:
        assert server.request("POST", "/v2/models/fine/infer", json.dumps(REQUEST))[0] == 200
        end = time.monotonic() + 20
        while not taken and time.monotonic() < end:
            time.sleep(0.02)
    collector.shutdown()
    path, body = taken[0]
    spans = body["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert path == "/v1/traces" and [span["name"] for span in spans] == ["InferRequest", "queue", "compute"]
    assert all(
        re.fullmatch("[0-9a-f]{32}", span["traceId"]) and re.fullmatch("[0-9a-f]{16}", span["spanId"]) for span in spans
    )
    assert spans[1]["parentSpanId"] == spans[0]["spanId"]
    assert abs(int(spans[0]["startTimeUnixNano"]) / 1e9 - time.time()) < 60
    assert int(spans[0]["startTimeUnixNano"]) <= int(spans[0]["endTimeUnixNano"])
