"""Metrics that models in Python count themselves, as Triton's custom metrics."""

import json
import math
import os
import re
import signal
import time

import pytest
from python_models import write_python
from serving import serving

COUNTER = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_input({"name": "IN", "data_type": "TYPE_FP32", "dims": [1]})
        config.add_output({"name": "OUT", "data_type": "TYPE_INT32", "dims": [1]})
        config.set_max_batch_size(0)
        return config

    def initialize(self, args):
        kinds = pb_utils.MetricFamily
        self.calls = kinds("own_calls_total", 'how "often"', kinds.COUNTER).Metric({"of": 'a"b\\\\c'})
        self.last = kinds("own_last", "what came", kinds.GAUGE).Metric()
        self.sizes = kinds("own_sizes", "how large", kinds.HISTOGRAM).Metric({"x": "y"}, [1, 10])
        self.dropped = kinds("own_dropped", "is there for a while", kinds.GAUGE).Metric()
        for wrong in (
            lambda: self.calls.set(1),
            lambda: self.calls.increment(-1),
            lambda: self.calls.increment(float("nan")),
            lambda: self.last.observe(1),
            lambda: kinds("latency-ms", "", kinds.GAUGE),
            lambda: kinds("nv_own", "", kinds.GAUGE),
            lambda: kinds("own", "", []),
            lambda: kinds("own", "", kinds.GAUGE).Metric({"a-b": "c"}),
            lambda: kinds("own", "", kinds.HISTOGRAM).Metric({}, [1, float("inf")]),
        ):
            try:
                wrong()
            except pb_utils.TritonModelException:
                continue
            raise AssertionError("it is no error")

    def execute(self, requests):
        answers = []
        for request in requests:
            value = float(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()[0])
            self.calls.increment(1)
            self.last.set(value)
            if value == 1e9:
                self.calls.increment(2**40)
                self.dropped = None
            if value < 0:
                self.last.set(float("nan"))
                value = float("inf")
            self.sizes.observe(value)
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([os.getpid()], np.int32))]))
        return answers
"""


def samples(server):
    _, _, body = server.request("GET", "/metrics", port="metrics")
    return {name: float(value) for name, value in re.findall(r"^(own_\S+) (\S+)$", body.decode(), re.MULTILINE)}


def wait_for(server, name, value):
    end = time.monotonic() + 20
    while (found := samples(server)).get(name) != value:
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found


@pytest.mark.usefixtures("interpreter")
def test_counters_gauges_and_histograms(tmp_path):
    write_python(tmp_path, "counts", COUNTER)
    with serving(tmp_path) as server:

        def ask(value):
            tensor = {"name": "IN", "shape": [1], "datatype": "FP32", "data": [value]}
            status, _, body = server.request("POST", "/v2/models/counts/infer", json.dumps({"inputs": [tensor]}))
            assert status == 200, body
            return json.loads(body)["outputs"][0]["data"][0]

        for value in (0.5, 1, 7, 70):
            process = ask(value)
        calls = 'own_calls_total{of="a\\"b\\\\c"}'
        found = wait_for(server, calls, 4)
        assert found["own_last"] == 70
        buckets = {le: found[f'own_sizes_bucket{{x="y",le="{le}"}}'] for le in ("1", "10", "+Inf")}
        assert buckets == {"1": 2, "10": 3, "+Inf": 4}
        assert (found['own_sizes_sum{x="y"}'], found['own_sizes_count{x="y"}']) == (78.5, 4)
        assert found["own_dropped"] == 0
        ask(1e9)
        found = wait_for(server, calls, 5 + 2**40)
        assert "own_dropped" not in found
        assert ask(-1) == process
        found = wait_for(server, 'own_sizes_sum{x="y"}', math.inf)
        assert math.isnan(found["own_last"]) and found['own_sizes_bucket{x="y",le="10"}'] == 3
        os.kill(process, signal.SIGKILL)
        wait_for(server, calls, 0)  # of the process that was started again


GAUGES = """
class TritonPythonModel:
    def initialize(self, args):
        self.share = pb_utils.MetricFamily("own_share", "of two instances", pb_utils.MetricFamily.GAUGE).Metric()
        self.share.set(0.75)

    def execute(self, requests):
        return []
"""
GAUGES_CONFIG = """
name: "shares"
backend: "python"
input [{ name: "IN" data_type: TYPE_FP32 dims: [1] }]
output [{ name: "OUT" data_type: TYPE_FP32 dims: [1] }]
instance_group [{ count: 2 kind: KIND_CPU }]
"""


@pytest.mark.usefixtures("interpreter")
def test_gauges_of_instances_are_not_summed(tmp_path):
    write_python(tmp_path, "shares", GAUGES, config=GAUGES_CONFIG)
    with serving(tmp_path) as server:
        wait_for(server, "own_share", 0.75)
        time.sleep(0.5)
        assert samples(server)["own_share"] == 0.75
