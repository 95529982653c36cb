"""bench/compare_gpu: what it says without PyTorch, and the page made of its figures. The measurement needs PyTorch and a
GPU."""

import subprocess
import sys

import compare_gpu
import gpu_page
import pytest
from camshaft_cli import ROOT

LIMITS = {"name": "GPU X", "tflops": 790.0, "gbs": 4300.0, "torch": "2.11", "commit": "abc"}


def entry(ms, **more):
    return {
        "ms": ms,
        "median_ms": ms * 1.1,
        "high_ms": ms * 1.2,
        "kernels": 60,
        "host_us": 12.0,
        "error": 2e-3,
        "setup_s": 7.0,
    } | more


def figures(**modes):
    return {"modes": modes, "bound": {"gflop": 8.0, "ms": 0.02}, "limits": LIMITS, "rounds": 3, "date": "2026-01-01"}


RESULTS = {
    "resnet50": {
        "1": figures(camshaft=entry(0.25), eager=entry(2.0), graph=entry(0.5, kernels=None)),
        "32": figures(camshaft=entry(2.0), graph=entry(1.6)),
    },
    "bert": {"1": figures(camshaft=entry(0.5), graph={"skipped": "out of memory"}, eager=entry(4.0))},
    "gpt2": {"1": figures(camshaft=entry(0.5))},
}


def test_ratios_are_against_the_best_mode():
    assert gpu_page.ratio(RESULTS["resnet50"]["1"]) == 2
    assert gpu_page.ratio(RESULTS["bert"]["1"]) == 8
    assert gpu_page.ratio(RESULTS["gpt2"]["1"]) is None


def test_page():
    text = "\n".join(gpu_page.lines(RESULTS))
    assert "- GPU X: 790 TFLOP/s in fp16 products, 4300 GB/s in copies; PyTorch 2.11; Camshaft abc, 2026-01-01" in text
    assert "| 1 | 2 | 4.00 | resnet50 2.00 |" in text
    assert "| 32 | 1 | 0.80 | resnet50 0.80 |" in text
    assert (
        "| resnet50 | 0.250 | 0.275 | 2.00 | 0.500 | – | – | 2.00 | 4000 | 0.020 | 60 / – | 12 | 2e-03 / 2e-03 |"
        in text
    )
    assert "- bert, batch 1, CUDA graph: out of memory" in text
    assert "| gpt2 | 0.500 | 0.550 | – | – | – | – | – | 2000 |" in text


def bare_python(script, *words):
    """The script on a Python that has nothing but its standard library."""
    return subprocess.run([sys.executable, "-S", ROOT / script, *words], capture_output=True, text=True)


def test_engines_are_verified_unless_told_otherwise():
    assert compare_gpu.parse([]).build == []
    assert compare_gpu.parse(["--build", "--no-verify --tuning heuristic"]).build == [
        "--no-verify",
        "--tuning",
        "heuristic",
    ]


def test_help_needs_no_pytorch():
    done = bare_python("bench/compare_gpu.py", "--help")
    assert done.returncode == 0 and "resnet50" in done.stdout and "max-autotune" in done.stdout, done.stderr


def test_bad_arguments_need_no_pytorch():
    done = bare_python("bench/compare_gpu.py", "resnet51")
    assert done.returncode == 2 and "no such model: resnet51; there are resnet50, bert" in done.stderr


def test_what_is_missing_is_said_in_a_line():
    done = bare_python("bench/compare_gpu.py", "bert")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, done.stderr
    assert " has no numpy: install it there" in done.stderr and "CAMSHAFT_PYTHON" in done.stderr


@pytest.mark.parametrize(
    "script", ["scripts/report.py", "scripts/operators_page.py", "tests/differential/differential.py"]
)
def test_scripts_find_the_project_s_python(script):
    """Their first lines start them again with it."""
    python = getattr(sys, "_base_executable", sys.executable)
    done = subprocess.run([python, ROOT / script, "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "usage:" in done.stdout, done.stderr
