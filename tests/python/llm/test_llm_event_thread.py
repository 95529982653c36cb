"""What a step gave, taken while the next one runs: as on GPUs, though the model is on the CPU here."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest
import tiny_decoder
from camshaft import _native
from camshaft.llm import LLM, SamplingParams
from camshaft.llm._requests import Request

VOCABULARY = 300


@pytest.fixture(scope="module")
def engine():
    return tiny_decoder.engine_of(tiny_decoder.weights_of(VOCABULARY))


@pytest.fixture
def llm(engine):
    made = LLM(engine, max_model_len=128)
    made._steps._overlaps = True
    return made


def greedy(count):
    return SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)


def watch(monkeypatch, before):
    """before(request, event) is called in front of each Request.take()."""
    take = Request.take

    def watched(self, event):
        before(self, event)
        return take(self, event)

    monkeypatch.setattr(Request, "take", watched)


def end_at(monkeypatch, length):
    """Texts of all prompts but [3, 4] end there as by a stop string, of which the generator knows nothing."""
    take = Request.take

    def ended(self, event):
        take(self, event)
        output = self.outputs[event[1]]
        if self.tokens != [3, 4] and output.finish_reason is None and len(output.token_ids) >= length:
            self.finish(event[1], "stop")
            return True
        return False

    monkeypatch.setattr(Request, "take", ended)


def test_all_but_the_end_is_taken_on_the_other_thread(llm, monkeypatch):
    seen = []
    watch(monkeypatch, lambda _, event: seen.append((threading.current_thread().name, event[6])))
    [output] = llm.generate([[1, 2]], greedy(8))
    assert len(output.outputs[0].token_ids) == 8
    assert seen == [("camshaft.llm.events", None)] * 7 + [("camshaft.llm", "length")]


def test_it_is_taken_while_pictures_are_encoded(llm, monkeypatch):
    """As a step begins with the next request's, which takes longer than the step itself."""
    taken, found, encode = [], [], llm._steps._encode_next

    def slow(told):
        expected, end = len(found), time.monotonic() + 5
        while len(taken) < expected and time.monotonic() < end:
            time.sleep(1e-3)
        found.append(len(taken))
        encode(told)

    watch(monkeypatch, lambda _, event: taken.append(event))
    monkeypatch.setattr(llm._steps, "_encode_next", slow)
    llm.generate([[1, 2]], greedy(4))
    assert found == [0, 1, 2, 3]


def test_a_sample_that_ends_there_ends_alone(llm, monkeypatch):
    """Of the token that the step beside it drew for it nothing is seen."""
    drawn = SamplingParams(n=3, seed=1, max_tokens=20, ignore_eos=True)
    expected = [[o.token_ids for o in text.outputs] for text in llm.generate([[1, 2], [3, 4]], drawn)]
    end_at(monkeypatch, 5)
    ended, whole = llm.generate([[1, 2], [3, 4]], drawn)
    assert [o.token_ids for o in ended.outputs] == [tokens[:5] for tokens in expected[0]]
    assert [o.token_ids for o in whole.outputs] == expected[1]
    assert [o.finish_reason for o in ended.outputs + whole.outputs] == ["stop"] * 3 + ["length"] * 3
    assert llm.statistics()["running"] == 0


def test_what_fails_there_ends_its_request_alone(llm, monkeypatch):
    expected = llm.generate([[4, 5]], greedy(30))[0].outputs[0].token_ids

    def fail(request, event):
        if request.tokens == [1, 2] and len(request.outputs[0].token_ids) == 3:
            raise SystemExit("of the tokenizer")

    watch(monkeypatch, fail)
    with pytest.raises(SystemExit, match="of the tokenizer"):
        llm.generate([[1, 2]], greedy(8))
    good, bad = [], []
    threads = [
        threading.Thread(target=lambda: good.append(llm.generate([[4, 5]], greedy(30)))),
        threading.Thread(target=lambda: bad.append(pytest.raises(SystemExit, llm.generate, [[1, 2]], greedy(8)))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert good[0][0].outputs[0].token_ids == expected and bad


def test_a_text_that_ended_beside_a_step_that_failed_is_whole(llm, monkeypatch):
    end_at(monkeypatch, 5)
    results, runs, run = [], [], _native.generator_run

    def failing(generator):
        run(generator)
        runs.append(None)
        if len(runs) == 6:  # beside which the fifth token is taken
            first, _ = llm._steps.requests()
            end = time.monotonic() + 5
            while not first.finished and time.monotonic() < end:
                time.sleep(1e-3)
            raise RuntimeError("of the step")

    monkeypatch.setattr(_native, "generator_run", failing)
    with pytest.raises(RuntimeError, match="of the step"):
        for result in llm.stream([[1, 2], [3, 4]], greedy(20)):
            results.append(result)
    monkeypatch.undo()
    assert [(len(r.outputs[0].token_ids), r.outputs[0].finish_reason) for r in results if r.finished] == [(5, "stop")]
    assert len(llm.generate([[1, 2]], greedy(8))[0].outputs[0].token_ids) == 8


def test_steps_end_with_the_process_before_what_they_wait_for(tmp_path):
    program = textwrap.dedent(
        """
        import sys, threading
        import tiny_decoder
        from camshaft.llm import LLM, SamplingParams
        from camshaft.llm._event_thread import EventThread

        def close(self, close=EventThread.close):
            names = [thread.name for thread in threading.enumerate()]
            print("closed", "camshaft.llm.events" in names, "camshaft.llm" in names, flush=True)
            close(self)

        EventThread.close = close
        llm = LLM(tiny_decoder.engine_of(tiny_decoder.weights_of(300)), max_model_len=128)
        llm._steps._overlaps = True
        stream = llm.stream([1, 2], SamplingParams(temperature=0, max_tokens=100, ignore_eos=True))
        next(stream)
        """
    )
    path = os.pathsep.join(p for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "closed True False\n"), done.stderr
