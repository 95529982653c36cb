"""camshaft.ray on a local Ray of several processes: skipped where Ray is not installed."""

import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
from camshaft_cli import BINARY

from onnx import parser

ray = pytest.importorskip("ray", reason="Ray is not installed")
HERE = str(BINARY.resolve().parent.parent / "python")
if HERE not in sys.path:
    sys.path.insert(0, HERE)
pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")
import camshaft.ray  # noqa: E402

ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers cannot import it


def engine_of(text):
    return camshaft.build(parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}'), tuning="heuristic")


@pytest.fixture(scope="module")
def engine():
    return engine_of(
        "g (float[n, 4] x) => (float[n, 4] y, float[n, 1] s) { y = Exp(x) axis = Constant<value_ints = [1]>() "
        "s = ReduceSum(y, axis) }"
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        runtime_env={"env_vars": {"PYTHONPATH": HERE, "TMPDIR": str(tmp_path_factory.mktemp("engines"))}},
        logging_level="warning",
    )
    yield
    ray.shutdown()


def rows(count):
    x = np.random.default_rng(0).normal(size=(count, 4)).astype(np.float32)
    return x, [{"id": number, "x": x[number]} for number in range(count)]


def test_a_dataset(cluster, engine):
    x, items = rows(1000)
    predicted = ray.data.from_items(items).map_batches(
        camshaft.ray.Predictor,
        fn_constructor_args=(camshaft.ray.put(engine),),
        batch_size=64,
        compute=ray.data.ActorPoolStrategy(size=3),
    )
    found = {row["id"]: row for row in predicted.take_all()}
    assert sorted(found) == list(range(1000)) and set(found[0]) == {"id", "y", "s"}
    np.testing.assert_allclose(np.stack([found[number]["y"] for number in range(1000)]), np.exp(x), rtol=1e-5)


class Killed(camshaft.ray.Predictor):
    """Its first process ends in the middle of a batch."""

    def __init__(self, engine, marker):
        super().__init__(engine)
        self._marker, self._batches = marker, 0

    def __call__(self, batch):
        self._batches += 1
        if self._batches == 3:
            try:
                os.close(os.open(self._marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def test_nothing_is_lost_with_a_worker(cluster, engine, tmp_path):
    x, items = rows(800)
    predicted = ray.data.from_items(items, override_num_blocks=20).map_batches(
        Killed,
        fn_constructor_args=(camshaft.ray.put(engine), str(tmp_path / "killed")),
        batch_size=20,
        compute=ray.data.ActorPoolStrategy(size=2),
    )
    found = {row["id"]: row["y"] for row in predicted.take_all()}
    assert (tmp_path / "killed").exists()
    assert sorted(found) == list(range(800))
    np.testing.assert_allclose(np.stack([found[number] for number in range(800)]), np.exp(x), rtol=1e-5)


def test_columns(engine):
    predictor = camshaft.ray.Predictor(engine, columns={"x": "features"}, keep=[])
    assert set(predictor({"features": np.zeros((2, 4), np.float32), "id": np.arange(2)})) == {"y", "s"}
    ragged = np.empty(2, object)
    ragged[:] = [np.zeros(4, np.float32), np.ones(4, np.float32)]
    np.testing.assert_allclose(predictor({"features": ragged})["y"][1], np.exp(np.ones(4)), rtol=1e-6)
    assert predictor({"features": np.zeros((2, 4))})["y"].dtype == np.float32, "doubles, as lists of numbers become"
    with pytest.raises(camshaft.InvalidArgumentError, match="no column 'features'.*has x"):
        predictor({"x": np.zeros((2, 4), np.float32)})
    with pytest.raises(camshaft.InvalidArgumentError, match="and its column complex"):
        predictor({"features": np.zeros((2, 4), complex)})
    with pytest.raises(camshaft.InvalidArgumentError, match="no input 'z'"):
        camshaft.ray.Predictor(engine, columns={"z": "x"})


def test_a_service(cluster, engine):
    from ray import serve

    application = camshaft.ray.app(engine, max_batch_size=8, num_replicas=2, ray_actor_options={"num_cpus": 1})
    handle = serve.run(application, name="camshaft-test", route_prefix="/exp")
    try:
        x, _ = rows(60)
        answers = [handle.infer.remote({"x": x[number : number + 1 + number % 3]}) for number in range(50)]
        for number, answer in enumerate(answers):
            np.testing.assert_allclose(answer.result()["y"], np.exp(x[number : number + 1 + number % 3]), rtol=1e-5)
        # One that is wrong fails alone.
        wrong = [handle.infer.remote({"x": x[:1] if number % 5 else x[:1, :3]}) for number in range(20)]
        for number, answer in enumerate(wrong):
            if number % 5:
                np.testing.assert_allclose(answer.result()["y"], np.exp(x[:1]), rtol=1e-5)
            else:
                with pytest.raises(Exception, match="x"):
                    answer.result()

        def post(body):
            request = urllib.request.Request("http://127.0.0.1:8000/exp", json.dumps(body).encode())
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return response.status, json.load(response)
            except urllib.error.HTTPError as error:
                return error.code, json.load(error)

        value = {"name": "x", "shape": [2, 4], "datatype": "FP32", "data": x[:2].ravel().tolist()}
        status, answer = post({"inputs": [value]})
        assert status == 200 and [output["name"] for output in answer["outputs"]] == ["y", "s"]
        np.testing.assert_allclose(np.reshape(answer["outputs"][0]["data"], [2, 4]), np.exp(x[:2]), rtol=1e-5)
        assert post({"inputs": []})[0] == 400
        assert post({"inputs": [{**value, "shape": [3, 4]}]})[0] == 400
        assert post({"inputs": [{**value, "datatype": "FP8"}]})[0] == 400
    finally:
        serve.delete("camshaft-test")


def test_requests_that_come_during_a_run_are_one_batch(engine):
    import asyncio

    deployment = camshaft.ray.Deployment(engine, max_batch_size=8)
    batches = []
    run = deployment._run

    async def slow(requests, numbers):
        batches.append(sum(numbers))
        await asyncio.sleep(0.01)
        return await run(requests, numbers)

    deployment._run = slow
    x, _ = rows(20)

    async def all_of_them():
        return await asyncio.gather(*(deployment.infer({"x": x[number : number + 1]}) for number in range(20)))

    answers = asyncio.run(all_of_them())
    np.testing.assert_allclose(np.concatenate([answer["y"] for answer in answers]), np.exp(x), rtol=1e-5)
    assert sum(batches) == 20 and max(batches) == 8 and len(batches) <= 4


def test_what_a_service_refuses(engine):
    fixed = engine_of("g (float[2, 3] x) => (float[2, 3] y) { y = Exp(x) }")
    with pytest.raises(camshaft.InvalidArgumentError, match="'x' takes no number of rows"):
        camshaft.ray.Deployment(fixed, max_batch_size=4)
    with pytest.raises(camshaft.InvalidArgumentError, match="1 or more"):
        camshaft.ray.Deployment(engine, max_batch_size=0)


def test_processes_of_a_node_map_one_file(cluster, engine):
    stored = camshaft.ray.put(engine)

    @ray.remote
    class Holder:
        def __init__(self, stored):
            self.engine = camshaft.ray._engines.load(stored)

        def maps(self):
            return [line.split()[-1] for line in open("/proc/self/maps") if stored.digest in line]

    holders = [Holder.remote(stored) for _ in range(2)]
    mapped = ray.get([holder.maps.remote() for holder in holders])
    assert mapped[0] and mapped[0][0] == mapped[1][0]
    assert time.time() > os.stat(mapped[0][0]).st_mtime
