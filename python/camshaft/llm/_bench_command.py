"""`camshaft llm bench`: how fast a built language model reads and writes."""

from __future__ import annotations

import argparse
import json
import queue
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple, Union

from camshaft._engine import Engine
from camshaft._errors import InvalidArgumentError
from camshaft.llm._folder import engine_names, hidden_size_of, ranks_of, read_description
from camshaft.llm._llm import LLM
from camshaft.llm._lora_request import LoRARequest, add_lora_flag, requests_of_flags
from camshaft.llm._sampling_params import SamplingParams
from camshaft.llm._speculative import add_speculation, config_of_flags
from camshaft.llm._standard_streams import complain, say

_COLUMNS = {
    "threads": "threads",
    "max_num_seqs": "seqs",
    "prefill_tokens_per_second": "prefill tok/s",
    "decode_tokens_per_second": "decode tok/s",
    "output_tokens_per_second": "output tok/s",
    "requests_per_second": "req/s",
    "acceptance_length": "tok/guess",
    "ttft_ms_p50": "first p50",
    "ttft_ms_p99": "p99 ms",
    "itl_ms_p50": "between p50",
    "itl_ms_p99": "p99 ms",
}


def add_bench(commands: Any) -> None:
    text = "Measure how many tokens a built language model reads and writes in a second."
    about = """
prefill: prompts alone, so many at once as there is place for. decode: max-num-seqs sequences, once all of them write.
The rest is of num-prompts requests that come at once: tokens written in a second from the first to the last, the time to
the first token of a request, which waiting for others is part of, and the time between its tokens. Where tokens are guessed
ahead tok/guess is how many a text grew by in a step that had guesses, of prompts that are random."""
    command = commands.add_parser("bench", help=text, description=text, epilog=about, allow_abbrev=False)
    command.formatter_class = argparse.RawDescriptionHelpFormatter
    command.add_argument("folder", metavar="DIR", help="that `camshaft llm build` made")
    command.add_argument("--input-len", type=int, default=128, metavar="N", help="tokens of a prompt (default: 128)")
    command.add_argument("--output-len", type=int, default=64, metavar="N", help="tokens of a text (default: 64)")
    command.add_argument("--num-prompts", type=int, default=16, metavar="N", help="requests (default: 16)")
    command.add_argument(
        "--max-num-seqs",
        type=int,
        nargs="+",
        default=[1, 8],
        metavar="N",
        help="at once, each is measured (default: 1 8)",
    )
    command.add_argument(
        "--threads", type=int, nargs="+", default=[0], metavar="N", help="each is measured; 0: one for each core"
    )
    command.add_argument(
        "--max-num-batched-tokens", type=int, default=512, metavar="N", help="of a step (default: 512)"
    )
    add_speculation(command)
    add_lora_flag(command, "adapters that requests have in turn: of the model, or of folders that PEFT wrote")
    command.add_argument("--repetitions", type=int, default=1, metavar="N", help="of which the fastest counts")
    command.add_argument("--seed", type=int, default=0, metavar="N", help="of the prompts, which are random tokens")
    command.add_argument("--device", metavar="X", help="cuda:N, where the engine is for GPUs")
    command.add_argument("--json", action="store_true", help="instead of a table")
    command.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> None:
    for name in ("input_len", "output_len", "num_prompts", "repetitions"):
        if getattr(options, name) < 1:
            raise InvalidArgumentError(f"--{name.replace('_', '-')} is {getattr(options, name)}, it must be 1 or more")
    if options.output_len < 2:
        raise InvalidArgumentError("--output-len is 1: there is nothing between a text's tokens then")
    folder = Path(options.folder)
    description = read_description(folder)
    if "encoder" in description or "speech" in description:
        raise InvalidArgumentError(
            f"{folder}: the model has an encoder, and what is measured is text of decoders alone"
        )
    ranks = ranks_of(description, folder)
    engine = Engine(folder / engine_names(ranks)[0], options.device)
    if hidden_size_of(engine) is not None:
        raise InvalidArgumentError(f"{folder}: the model gives embeddings, and what is measured is text")
    results = []
    for threads in options.threads:
        for seqs in options.max_num_seqs:
            results.append(_measured(engine if ranks == 1 else folder, description, threads, seqs, options))
            if not options.json and sys.stderr.isatty():
                complain(f"threads {threads}, {seqs} sequences: measured")
    if options.json:
        about = {"model": str(folder), "device": engine.device, **{k: description.get(k) for k in _ABOUT}}
        asked = {k: getattr(options, k) for k in ("input_len", "output_len", "num_prompts", "seed")}
        say(json.dumps({**about, **asked, "results": results}, indent=2))
    else:
        say(_table(results))


_Loras = list[Union[LoRARequest, None]]  # of each prompt
_ABOUT = ("model_type", "weights", "cache_type", "layers", "vocabulary")


def _measured(
    model: Engine | Path, description: dict[str, Any], threads: int, seqs: int, options: argparse.Namespace
) -> dict[str, Any]:
    import numpy

    length = options.input_len + options.output_len
    llm = LLM(
        model,
        description=description,
        device=options.device,
        max_model_len=length,
        max_num_seqs=seqs,
        max_num_batched_tokens=options.max_num_batched_tokens,
        enable_prefix_caching=False,
        speculative_config=config_of_flags(
            options.speculative_model, options.num_speculative_tokens, options.draft_sample_method
        ),
        max_loras=len(options.lora) or None,
        threads=threads or None,
    )
    random = numpy.random.default_rng(options.seed)
    count = max(options.num_prompts, seqs)
    prompts = random.integers(0, description["vocabulary"], (count, options.input_len)).tolist()

    def params(tokens: int) -> SamplingParams:
        return SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, detokenize=False)

    adapters: _Loras = [*requests_of_flags(options.lora, Path(options.folder))] or [None]
    loras: _Loras = [adapters[i % len(adapters)] for i in range(count)]
    llm.generate(prompts[:seqs], params(min(4, options.output_len)), lora_request=loras[:seqs])  # steps get plans
    best: dict[str, Any] = {}
    for _ in range(options.repetitions):
        begin = time.perf_counter()
        llm.generate(prompts, params(1), lora_request=loras)
        prefill = count * options.input_len / (time.perf_counter() - begin)
        decode = _decode_rate(llm, prompts[:seqs], params(options.output_len), loras[:seqs])
        served = _served(llm, prompts[: options.num_prompts], params(options.output_len), loras[: options.num_prompts])
        for name, value in {"prefill_tokens_per_second": prefill, "decode_tokens_per_second": decode, **served}.items():
            better = min if name.endswith(("p50", "p99")) else max
            best[name] = better(best.get(name, value), value)
    found = llm.statistics()
    best["acceptance_length"] = 1 + found["accepted"] / max(found["drafts"], 1)
    return {"threads": threads, "max_num_seqs": seqs, **{name: round(value, 3) for name, value in best.items()}}


class _Written(NamedTuple):
    """What a step gave a request. at: by time.perf_counter(); tokens: that it has then."""

    at: float
    request: str
    tokens: int
    finished: bool


def _written_by(llm: LLM, prompts: list[list[int]], params: SamplingParams, loras: _Loras) -> list[_Written]:
    """In their order. Times are taken on the thread of the steps: who read outputs from a queue would see those of a tiny model
    late, and many of them at once."""
    written: list[_Written] = []
    ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def changed(result: Any) -> None:
        if isinstance(result, BaseException):
            ended.put(result)
            return
        tokens = result.outputs[0].token_ids
        written.append(_Written(time.perf_counter(), result.request_id, len(tokens), result.finished))
        if result.finished:
            ended.put(None)

    requests = llm._add_all(prompts, params, None, changed, True, loras)
    try:
        llm._steps.start_thread()
        for _ in requests:
            if (error := ended.get()) is not None:
                raise error
    finally:
        llm._steps.abort(requests)
    return written


def _decode_rate(llm: LLM, prompts: list[list[int]], params: SamplingParams, loras: _Loras) -> float:
    """From the end of the step behind which all sequences write to the end of that in which the first of them ends."""
    steps: list[tuple[float, int]] = []  # their ends, with the tokens that all have then
    counts: dict[str, int] = {}
    seen: set[str] = set()  # in this step
    last, has_ended = 0.0, False
    for each in _written_by(llm, prompts, params, loras):
        if each.request in seen:  # the next step
            seen.clear()
            if has_ended:
                break
        if not seen and len(counts) == len(prompts):
            steps.append((last, sum(counts.values())))
        seen.add(each.request)
        counts[each.request], last, has_ended = each.tokens, each.at, has_ended or each.finished
    steps.append((last, sum(counts.values())))
    (begin, at_begin), (end, at_end) = steps[0], steps[-1]
    if at_end == at_begin or end <= begin:
        raise InvalidArgumentError(
            f"--output-len {params.max_tokens} is too little to measure: the first text has ended before all were written "
            "at once, or in the same step"
        )
    return (at_end - at_begin) / (end - begin)


def _served(llm: LLM, prompts: list[list[int]], params: SamplingParams, loras: _Loras) -> dict[str, float]:
    import numpy

    begin = time.perf_counter()
    first: list[float] = []
    between: list[float] = []
    seen: dict[str, tuple[int, float]] = {}
    for each in _written_by(llm, prompts, params, loras):
        known = seen.get(each.request)
        if known is None:
            first.append(each.at - begin)
        elif each.tokens > known[0]:  # of a step that gave several tokens each has its part
            between += [(each.at - known[1]) / (each.tokens - known[0])] * (each.tokens - known[0])
        seen[each.request] = (each.tokens, each.at)
    took = time.perf_counter() - begin
    written = sum(count for count, _ in seen.values())
    made = {"output_tokens_per_second": written / took, "requests_per_second": len(prompts) / took}
    for name, times in (("ttft", first), ("itl", between)):
        for part in (50, 99):
            made[f"{name}_ms_p{part}"] = 1e3 * float(numpy.percentile(times, part))
    return made


def _table(results: list[dict[str, Any]]) -> str:
    rows = [list(_COLUMNS.values())]
    for result in results:
        rows.append([_written(result[name]) for name in _COLUMNS])
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows)


def _written(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.1f}" if value >= 10 else f"{value:.3f}"
