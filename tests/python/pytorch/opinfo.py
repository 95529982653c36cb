"""PyTorch's own samples of its operators, compiled and compared: a table of what passes.

opinfo.py                    the operators of core ATen that inference uses, f32 (i64 and bool where f32 is not taken)
opinfo.py add softmax        some, by OpInfo's names
opinfo.py --table FILE       writes docs/pytorch_operators.md
"""

import argparse
import collections
import concurrent.futures
import multiprocessing
import pathlib
import sys
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

# OpInfo's names (with the variant) of what core ATen has for inference: every operator that torch tags `core`, but for
# those of training (backward), of random numbers, and of complex numbers.
CORE = """
abs acos acosh add addmm:decomposed addmm all amax amin any arange argmax argmin as_strided asin asinh atan atan2 atanh
bitwise_and bitwise_not bitwise_or bitwise_xor bmm cat cdist ceil clamp clone constant_pad_nd cos cosh cumsum diagonal
div:no_rounding_mode div:floor_rounding div:trunc_rounding eq erf exp expand expm1 fill flip floor floor_divide fmod
full full_like gather ge gt index_put index_select isinf isnan le log log10 log1p log2 logical_and logical_not logical_or
logical_xor lt masked_fill masked_scatter max:binary max:reduction_with_dim max:reduction_no_dim maximum mean
min:binary min:reduction_with_dim min:reduction_no_dim minimum mm mul native_layer_norm ne neg
nn.functional.adaptive_avg_pool1d nn.functional.adaptive_avg_pool2d nn.functional.adaptive_avg_pool3d
nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.batch_norm
nn.functional.conv1d nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
nn.functional.conv_transpose2d nn.functional.conv_transpose3d nn.functional.elu nn.functional.embedding
nn.functional.gelu nn.functional.grid_sample nn.functional.group_norm nn.functional.hardtanh
nn.functional.instance_norm nn.functional.interpolate:bilinear nn.functional.interpolate:nearest
nn.functional.interpolate:bicubic nn.functional.interpolate:linear nn.functional.interpolate:trilinear
nn.functional.layer_norm nn.functional.leaky_relu nn.functional.linear nn.functional.max_pool1d
nn.functional.max_pool2d nn.functional.max_pool3d nn.functional.pad:constant nn.functional.pad:reflect
nn.functional.pad:replicate nn.functional.pdist nn.functional.relu nn.functional.scaled_dot_product_attention
nn.functional.hardswish nn.functional.hardsigmoid nn.functional.silu nn.functional.mish nn.functional.softplus
nn.functional.relu6 nn.functional.prelu nn.functional.rms_norm nn.functional.unfold nn.functional.upsample_bilinear
nn.functional.upsample_nearest nn.functional.pixel_shuffle nn.functional.normalize nn.functional.glu
nn.functional.embedding_bag nonzero permute pow prod reciprocal remainder repeat reshape round round:decimals_0
round:decimals_3 round:decimals_neg_3 rsqrt scalar_tensor scatter scatter_add scatter_reduce:sum scatter_reduce:prod
scatter_reduce:mean scatter_reduce:amax scatter_reduce:amin select select_scatter sigmoid sign sin sinh slice
slice_scatter softmax log_softmax sort split split:list_args split_with_sizes sqrt squeeze squeeze:multiple stack sub sum
t tan tanh topk transpose tril triu trunc unbind unfold unsqueeze var var:unbiased view where zeros_like ones_like
__getitem__ matmul einsum baddbmm logsumexp roll cumprod
""".split()


def entries(names=()):
    """OpInfos of CORE, or of the names given."""
    wanted = set()
    for name in names or CORE:
        base, _, variant = name.partition(":")
        wanted.add((base, variant))
    found = [op for op in op_db if (op.name, op.variant_test_name) in wanted]
    missing = wanted - {(op.name, op.variant_test_name) for op in found}
    return found, missing


LIMIT = 12  # samples of an operator and type: what follows varies no further

# Of these inference uses no integers, nor does any kernel take them: they stay with PyTorch.
FLOATS_ALONE = ("nn.functional.conv", "nn.functional.avg_pool", "nn.functional.max_pool", "nn.functional.unfold")
# Where elements are equal, PyTorch gives any of their places: results are (values, places along an axis).
PLACES = ("topk", "sort", "max", "min")
# Whose entry sets the seed of random numbers, which no graph can hold.
SEEDED = {"nn.functional.scaled_dot_product_attention": torch.nn.functional.scaled_dot_product_attention}


def dtypes_of(op):
    if op.name.startswith(FLOATS_ALONE):
        return [torch.float32]
    supported = op.supported_dtypes("cpu")
    chosen = [dtype for dtype in (torch.float32, torch.int64, torch.bool) if dtype in supported]
    return chosen or sorted(supported, key=str)[:1]


def tensors_in(value, found):
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif isinstance(value, (list, tuple)):
        for item in value:
            tensors_in(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            tensors_in(item, found)
    return found


def rebuilt(value, tensors):
    """The same structure, its tensors from an iterator."""
    if isinstance(value, torch.Tensor):
        return next(tensors)
    if isinstance(value, (list, tuple)):
        items = [rebuilt(item, tensors) for item in value]
        return type(value)(items) if not hasattr(value, "_fields") else type(value)(*items)
    if isinstance(value, dict):
        return {key: rebuilt(item, tensors) for key, item in value.items()}
    return value


class Sample:
    """A call of an operator as a function of its tensors alone."""

    def __init__(self, op, sample):
        self.op, self.given = op, (sample.input, tuple(sample.args), dict(sample.kwargs))
        self.tensors = [tensor.detach() for tensor in tensors_in(self.given, [])]

    def __call__(self, *tensors):
        first, args, kwargs = rebuilt(self.given, iter(tensors))
        return SEEDED.get(self.op.name, self.op)(first, *args, **kwargs)

    def compare(self, actual, expected):
        if self.op.name in PLACES and isinstance(expected, tuple):
            (values, places), read = actual, self.tensors[0]
            assert places.dtype == expected[1].dtype and places.shape == expected[1].shape
            if read.ndim:
                dim = self._axis()
                wanted = places if places.ndim == read.ndim else places.unsqueeze(dim)
                found = torch.take_along_dim(read, wanted, dim).reshape_as(values)
                torch.testing.assert_close(found, values, equal_nan=True)
            actual, expected = values, expected[0]
        torch.testing.assert_close(actual, expected, equal_nan=True, rtol=1e-4, atol=2e-5)

    def _axis(self):
        _, args, kwargs = self.given
        place = 1 if self.op.name == "topk" else 0
        return kwargs.get("dim", args[place] if len(args) > place else -1)


def tally(op, dtype, limit=None):
    """(passed, left to PyTorch, failed, not judged) samples, and what went wrong. Not judged are tensors without elements,
    which PyTorch runs, and what trains, which is refused."""
    passed, left, failed, unjudged, notes = 0, 0, 0, 0, []
    for number, given in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
        if limit is not None and number >= limit:
            break
        sample = Sample(op, given)
        with torch.no_grad():
            expected = sample(*sample.tensors)
        if any(tensor.numel() == 0 for tensor in tensors_in([sample.tensors, expected], [])):
            unjudged += 1
            continue
        verdict, note = judged(sample, expected)
        unjudged += verdict == "training"
        passed += verdict == "passed"
        left += verdict == "left"
        failed += verdict == "failed"
        if note:
            notes.append(f"{op.name}{':' * bool(op.variant_test_name)}{op.variant_test_name} {dtype} #{number}: {note}")
    return (passed, left, failed, unjudged), notes


def judged(sample, expected):
    """ "passed", "left" (to PyTorch, with equal results), "training" or "failed", and why."""
    import camshaft.torch
    from camshaft.torch import _graph

    reasons = []
    regions = []

    class Heard(logging_handler()):
        def emit(self, record):
            reasons.append(record.getMessage())

    handler, built = Heard(), _graph._built

    def counted(*args, **kwargs):
        region = built(*args, **kwargs)
        regions.append(region)
        return region

    log = camshaft.torch.log
    log.addHandler(handler)
    _graph._built = counted
    torch.compiler.reset()
    options = {"min_block_size": 1, "cache": False, "optimization_level": 0}
    try:
        with torch.no_grad():
            compiled = torch.compile(sample, backend="camshaft", options=options, dynamic=False, fullgraph=False)
            actual = compiled(*[tensor.clone() if tensor.is_contiguous() else tensor for tensor in sample.tensors])
        sample.compare(actual, expected)
    except Exception as error:
        if "in training mode" in str(error):
            return "training", ""
        return (
            "failed",
            f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]} {' | '.join(reasons)[:300]}",
        )
    finally:
        log.removeHandler(handler)
        _graph._built = built
    if reasons or not regions:
        return "left", " | ".join(reasons)[:300] or "no graph was captured"
    return "passed", ""


def logging_handler():
    import logging

    return logging.Handler


def rows_of(name, variant, limit):
    """[(label, type, counts, notes)] of an operator: what one process does."""
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(5)
    op = next(op for op in op_db if (op.name, op.variant_test_name) == (name, variant))
    label, rows = f"{name}{':' * bool(variant)}{variant}", []
    for dtype in dtypes_of(op):
        rows.append((label, str(dtype).removeprefix("torch."), *tally(op, dtype, limit)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--table", metavar="FILE", type=pathlib.Path)
    parser.add_argument("--limit", type=int, default=LIMIT, help="samples of each operator and type")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    options = parser.parse_args()
    found, missing = entries(options.names)
    for name in sorted(missing):
        print("no OpInfo:", *name, file=sys.stderr)
    rows, totals = [], collections.Counter()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        tasks = [pool.submit(rows_of, op.name, op.variant_test_name, options.limit) for op in found]
        for task in concurrent.futures.as_completed(tasks):
            for label, dtype, counts, notes in task.result():
                rows.append((label, dtype, counts))
                totals.update(dict(zip(("passed", "left", "failed", "unjudged"), counts)))
                print(label, dtype, *counts, flush=True)
                for note in notes:
                    print("   ", note, flush=True)
    judged_samples = totals["passed"] + totals["left"] + totals["failed"]
    print(dict(totals), f"{100 * totals['passed'] / max(1, judged_samples):.2f} % of {judged_samples}")
    if options.table:
        write_table(options.table, rows)
    return 1 if totals["failed"] else 0


def read_table(path):
    """{(operator, type): counts} of a page that was written before."""
    rows = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 6 and cells[2].isdigit():
            rows[cells[0], cells[1]] = tuple(map(int, cells[2:]))
    return rows


def write_table(path, found):
    """Writes the page; rows of operators that were not judged this time stay."""
    rows = {**read_table(path), **{(label, dtype): counts for label, dtype, counts in found}}
    passed, left, failed, unjudged = (sum(counts[i] for counts in rows.values()) for i in range(4))
    version = ".".join(torch.__version__.split(".")[:2])
    lines = [
        "# Operators of PyTorch",
        "",
        f"Made by `tests/python/pytorch/opinfo.py --table` with PyTorch {version}; do not edit. *Compiled* are samples of",
        "PyTorch's OpInfo database that an engine computes whole, with PyTorch's own result; *left* those of which PyTorch",
        "runs a part, with the same result; *not judged* have tensors without elements, or train.",
        "",
        f"Of {passed + left + failed} samples {passed} are compiled, {left} left and {failed} wrong; {unjudged} are not judged.",
        f"At most {LIMIT} of an operator and type were taken.",
        "",
        "| operator | type | compiled | left | wrong | not judged |",
        "|---|---|---|---|---|---|",
    ]
    for (label, dtype), counts in sorted(rows.items()):
        lines.append(f"| {label} | {dtype} | " + " | ".join(map(str, counts)) + " |")
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
