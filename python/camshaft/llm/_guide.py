"""Guided decoding: which tokens may come next, by llguidance, for all samples of a step at once and while the model runs."""

from __future__ import annotations

import json
import os
import queue
import threading
import time
from typing import Any

from camshaft._errors import InvalidArgumentError
from camshaft.llm._json_size import check_size
from camshaft.llm._optional import needed
from camshaft.llm._structured_outputs import StructuredOutputsParams

#: Of a schema or grammar. Those that take longest to read are refused by llguidance's limits below.
_MOST_CHARACTERS = 1 << 20
#: The library's own, but for states of lexers, of which each takes 1 to 2 kB: 100 MB at most for a request.
_LIMITS = {
    "max_items_in_row": 2000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 50_000,
    "max_grammar_size": 500_000,
    "verbose_errors": False,
}

# Of a grammar whose masks take less than _QUICK_MASK seconds no more are tried; one that has taken _SLOW_GRAMMAR is refused.
_TRIED_MASKS, _QUICK_MASK, _SLOW_GRAMMAR = 8, 5e-3, 4.0


class Guides:
    """Of one model: its tokenizer as llguidance needs it. Made once, which takes about a second for 100,000 tokens."""

    def __init__(self, tokenizer: Any, vocabulary: int, eos_ids: list[int]) -> None:
        self._library = needed("llguidance", "structured_outputs")
        made = type(tokenizer).from_str(tokenizer.to_str())
        made.no_padding()
        made.no_truncation()
        try:
            self._tokenizer = self._library.LLTokenizer(made.to_str(), n_vocab=vocabulary, eos_token=eos_ids or None)
        except Exception as error:
            raise InvalidArgumentError(f"structured_outputs: llguidance cannot use the tokenizer: {error}") from None
        self._limits = self._library.LLParserLimits(**_LIMITS)
        self._vocabulary = vocabulary
        self._trying = threading.Lock()
        self._executor: Any = None  # whose threads belong to the process that made it

    def matcher(self, params: StructuredOutputsParams) -> Any:
        """For a text that begins. Raises InvalidArgumentError with what is wrong with a schema, or that it is too large."""
        kind = params.kind
        try:
            grammar = self._grammar(params)
            if len(grammar) > _MOST_CHARACTERS:
                raise ValueError(f"it has more than {_MOST_CHARACTERS} characters")
            made = self._library.LLMatcher(self._tokenizer, grammar, log_level=0, limits=self._limits)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentError(f"structured_outputs: {kind}: {error}") from None
        if not made.is_error():
            self._try_masks(made.deep_copy())
            return made
        raise InvalidArgumentError(f"structured_outputs: {kind}: {made.get_error().strip()}")

    def _try_masks(self, matcher: Any) -> None:
        """Grammars that are beyond the limits in their first tokens, as (((a{100}){100}){100}){100}, of which a mask takes a
        second, are refused here: in a step they would hold up all others. One after the other, so that many of them leave
        cores to the steps."""
        import numpy

        words = -(-self._vocabulary // 32)
        with self._trying:
            if self._executor is None:
                self._executor = self._library.LLExecutor(num_threads=1)
            start = time.perf_counter()
            for tried in range(1, _TRIED_MASKS + 1):
                mask = numpy.zeros(words, numpy.uint32)
                begin = time.perf_counter()
                try:
                    self._executor.unsafe_compute_mask_ptr([(matcher, 0)], mask.ctypes.data, mask.nbytes, 1)
                except BaseException as error:  # a panic of llguidance's is no Exception
                    raise InvalidArgumentError(f"structured_outputs: {error}") from None
                took = time.perf_counter() - begin
                is_empty = not mask.any()
                if not is_empty and took >= _QUICK_MASK:
                    place = int(mask.nonzero()[0][0])
                    bits = int(mask[place])
                    matcher.consume_token(32 * place + (bits & -bits).bit_length() - 1)
                # The library empties masks, or notices with the next token.
                if is_empty or matcher.is_error():
                    reason = matcher.get_error().strip() or "finding the tokens that may begin it is beyond the limits"
                    raise InvalidArgumentError(f"structured_outputs: {reason}")
                if took < _QUICK_MASK or matcher.is_stopped():
                    return
                if (total := time.perf_counter() - start) > _SLOW_GRAMMAR:
                    raise InvalidArgumentError(
                        f"structured_outputs: {tried} tokens of the grammar take {total:.1f} s, which is too slow"
                    )

    def _grammar(self, params: StructuredOutputsParams) -> str:
        of = self._library.LLMatcher
        if params.regex is not None:
            return str(of.grammar_from_regex(params.regex))
        if params.choice is not None:
            return str(of.grammar_from_lark("start: " + " | ".join(json.dumps(each) for each in params.choice)))
        if params.grammar is not None:
            return str(self._library.grammar_from("grammar", params.grammar))
        schema = {"type": "object"} if params.json is None else params.json
        if isinstance(schema, str):
            if len(schema) > _MOST_CHARACTERS:  # before it becomes objects, which are larger
                raise ValueError(f"it has more than {_MOST_CHARACTERS} characters")
            check_size(schema)
            schema = json.loads(schema)
        if not isinstance(schema, (dict, bool)):
            raise ValueError(f"a JSON schema is an object, not {schema!r}")
        options: dict[str, Any] = {}
        if params.disable_any_whitespace:
            options["whitespace_flexible"] = False
        if params.whitespace_pattern is not None:
            options["whitespace_pattern"] = params.whitespace_pattern
        return str(of.grammar_from_json_schema(json.dumps(schema), overrides=options))


class MaskFiller:
    """Fills masks in a thread beside, whose work does not hold Python's lock, on as many cores as there are matchers."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self, matchers: list[tuple[Any, int, list[int]]], address: int, bytes_of_one: int, count: int) -> None:
        """matchers: each with its first mask, and the guesses behind which it fills those that follow. wait() comes next."""
        if self._thread is None or not self._thread.is_alive():  # a forked child has none
            self._jobs, self._results = queue.SimpleQueue(), queue.SimpleQueue()
            arguments = (self._jobs, self._results)
            self._thread = threading.Thread(target=_fill, args=arguments, name="camshaft.llm.masks", daemon=True)
            self._thread.start()
        self._jobs.put((matchers, address, bytes_of_one, count))

    def wait(self) -> BaseException | None:
        """What went wrong: masks that are not filled are 0."""
        return self._results.get()

    def close(self) -> None:
        self._jobs.put(None)


def _fill(jobs: queue.SimpleQueue[Any], results: queue.SimpleQueue[BaseException | None]) -> None:
    executor = None
    while (job := jobs.get()) is not None:
        try:
            if executor is None:  # whose threads belong to this process
                executor = needed("llguidance", "structured_outputs").LLExecutor(num_threads=os.cpu_count())
            matchers, address, bytes_of_one, count = job
            alone = [(matcher, row) for matcher, row, guesses in matchers if not guesses]
            if alone:
                executor.unsafe_compute_mask_ptr(alone, address, bytes_of_one, count)
            guessed = [each for each in matchers if each[2]]
            if guessed:
                executor.unsafe_compute_mask_ptr_with_draft_token(guessed, address, bytes_of_one, count)
            results.put(None)
        except BaseException as error:  # a panic of llguidance's is no Exception
            results.put(error)


def advance(matcher: Any, tokens: list[int]) -> tuple[int, str | None]:
    """Tells a matcher what has come. How many of the tokens its text has, and what went wrong."""
    for place, token in enumerate(tokens):
        if not matcher.consume_token(token):
            return place, f"structured_outputs: {matcher.get_error().strip() or 'the text left the grammar'}"
        if matcher.is_stopped():
            return place + 1, None
    return len(tokens), None
