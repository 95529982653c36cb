"""The recipe of docs/spark.md, on a local Spark: skipped where PySpark or Java is not there."""

import re
import shutil
import sys

import numpy as np
import pytest
from camshaft_cli import BINARY, ROOT

from onnx import parser

pytest.importorskip("pyspark", reason="PySpark is not installed")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java", allow_module_level=True)
HERE = str(BINARY.resolve().parent.parent / "python")
if HERE not in sys.path:
    sys.path.insert(0, HERE)
camshaft = pytest.importorskip("camshaft", reason="the Python module was not built: no Python headers")


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:  # what the workers start with
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("PYTHONPATH", HERE)
        session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        yield session
        session.stop()


def test_the_recipe(spark, tmp_path):
    model = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 4] x) => (float[n, 4] y) { y = Exp(x) }'
    camshaft.build(parser.parse_model(model), tuning="heuristic").save(tmp_path / "model.engine")
    x = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
    table = spark.createDataFrame([(number, row.tolist()) for number, row in enumerate(x)], "id int, x array<float>")
    (code,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/spark.md").read_text(), re.MULTILINE | re.DOTALL)
    names = {"table": table.repartition(4)}
    exec(code.replace("/shared/model.engine", str(tmp_path / "model.engine")), names)
    found = {row["id"]: row["y"] for row in names["predictions"].collect()}
    np.testing.assert_allclose([found[number] for number in range(100)], np.exp(x), rtol=1e-5)
