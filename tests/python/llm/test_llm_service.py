"""Calls as the server hands them to a model, without a server: what waits, and what is refused, told apart by hand."""

import asyncio
import base64
import json
import threading
import time

import camshaft.llm
import llm_folders
import lora_folders
import numpy as np
import pytest
import whisper_folders
from camshaft.llm import LLM, LoRARequest, SamplingParams

pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")

from camshaft.llm.openai import _service  # noqa: E402
from camshaft.llm.openai._answer import Answer  # noqa: E402
from camshaft.llm.openai._loading import load, serve_folder  # noqa: E402
from vision_folders import encoded, picture, write_llava  # noqa: E402

FAST = {"tuning": "heuristic", "cache": "f32", "verify_seconds": 0.5}
MODULES = {"model.layers.0.self_attn.q_proj": (64, 64)}


class Metrics:
    def ended(self, work, began):
        pass


class Kept(Answer):
    """status: of the reply; None while there is none."""

    def __init__(self):
        super().__init__()
        self.status = self.text = None

    def send_reply(self, text, status, content_type):
        self.status, self.text = status, text

    def send_nothing(self):
        pass


class Calls:
    """Of a service, on a loop that runs until the block ends."""

    def __init__(self, served, most_queued=64):
        self.service = _service.Service(served, most_queued, Metrics(), print)
        self.tasks = []

    def begin(self, operation, body, content_type="application/json"):
        data, answer = body if isinstance(body, bytes) else json.dumps(body).encode(), Kept()
        self.tasks.append(asyncio.create_task(self.service.answer(operation, lambda: data, content_type, answer)))
        return answer

    async def reply(self, *arguments):
        answer = self.begin(*arguments)
        await asyncio.wait_for(self.tasks[-1], 30)
        return answer

    async def end(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def sees(tmp_path_factory):
    path = tmp_path_factory.mktemp("sees")
    camshaft.llm.build(write_llava(path / "hf"), path / "model", **FAST)
    return path / "model"


@pytest.fixture(scope="module")
def adapted(tmp_path_factory):
    """`french` is the folder's, `legal` lies beside it."""
    path = tmp_path_factory.mktemp("adapted")
    for seed, name in enumerate(("french", "legal")):
        lora_folders.write_adapter(path / name, lora_folders.make_updates(MODULES, 4, seed, 3.0))
    hf = llm_folders.write_chat_llama(path / "hf")
    camshaft.llm.build(hf, path / "model", lora=[f"french={path / 'french'}"], **FAST)
    return path


def talk_of(*pictures):
    urls = [f"data:image/png;base64,{base64.b64encode(encoded(each)).decode()}" for each in pictures]
    parts = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    return {
        "messages": [{"role": "user", "content": [*parts, {"type": "text", "text": "What?"}]}],
        "max_tokens": 3,
        "temperature": 0,
    }


def test_each_sound_counts(tmp_path):
    camshaft.llm.build(whisper_folders.write_whisper(tmp_path / "hf"), tmp_path / "model", tuning="heuristic")
    served = serve_folder(tmp_path / "model", "tiny", {"max_num_seqs": 1}, 16)
    sound = whisper_folders.write_wav(tmp_path / "a.wav", whisper_folders.sound(0.5, 1)).read_bytes()
    head = b'--b\r\nContent-Disposition: form-data; name="'
    fields = [(b'language"', b"en"), (b'max_completion_tokens"', b"2"), (b'file"; filename="a.wav"', sound)]
    body = b"".join(head + name + b"\r\n\r\n" + value + b"\r\n" for name, value in fields) + b"--b--"
    let_go = threading.Event()
    served.ears.submit(let_go.wait)  # nothing is heard until then

    async def run():
        calls = Calls(served, 16)
        answers = [calls.begin("audio/transcriptions", body, "multipart/form-data; boundary=b") for _ in range(16)]
        await until(lambda: calls.service._held == 16 * len(sound))
        late = await calls.reply("audio/transcriptions", body, "multipart/form-data; boundary=b")
        assert late.status == 503 and [each.status for each in answers] == [None] * 16
        let_go.set()
        await asyncio.wait_for(asyncio.gather(*calls.tasks), 60)
        assert [each.status for each in answers] == [200] * 16
        assert calls.service._held == calls.service._sequences == 0

    try:
        asyncio.run(run())
    finally:
        let_go.set()


def test_texts_do_not_wait_for_pictures_of_which_few_are_held(sees, monkeypatch):
    served = serve_folder(sees, "tiny", {}, 64)
    encoder, let_go = served.llm.image_encoder, threading.Event()
    fill, prepare = encoder.fill, encoder.prepare
    size = prepare(picture(30, 30, 1)).nbytes
    assert size > 0
    monkeypatch.setattr(_service, "_MOST_HELD", size + size // 2)

    def slow_fill(waiting):
        let_go.wait(60)
        fill(waiting)

    async def run():
        calls = Calls(served)
        monkeypatch.setattr(encoder, "fill", slow_fill)
        held = calls.begin("chat/completions", talk_of(picture(30, 30, 1)))
        await until(lambda: calls.service._held == size)
        assert (await calls.reply("chat/completions", talk_of(picture(30, 30, 2)))).status == 503
        assert (await calls.reply("chat/completions", talk_of())).status == 200
        let_go.set()
        await until(lambda: held.status == 200)
        let_go.clear()
        monkeypatch.setattr(encoder, "fill", fill)
        alone = await calls.reply("chat/completions", talk_of(*[picture(30, 30, n) for n in range(2)]))
        assert alone.status == 200, alone.text  # beyond the bound, but alone

        def slow_prepare(*arguments):
            let_go.wait(60)
            return prepare(*arguments)

        monkeypatch.setattr(encoder, "prepare", slow_prepare)
        read = [calls.begin("chat/completions", talk_of(picture(30, 30, n))) for n in range(6)]  # more than readers
        await asyncio.sleep(0.1)
        assert (await calls.reply("chat/completions", talk_of())).status == 200
        assert all(each.status is None for each in read)
        let_go.set()
        await until(lambda: all(each.status is not None for each in read))
        assert calls.service._held == 0

    try:
        asyncio.run(run())
    finally:
        let_go.set()


def test_guided_texts_of_pictures(sees):
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    served = serve_folder(sees, "tiny", {}, 64)

    async def run():
        calls = Calls(served)
        guided = {
            **talk_of(picture(30, 30, 1)),
            "max_tokens": 20,
            "n": 2,
            "temperature": 1,
            "structured_outputs": {"choice": ["a", "b"]},
        }
        answer = await calls.reply("chat/completions", guided)
        assert answer.status == 200, answer.text
        assert all(each["message"]["content"] in "ab" for each in json.loads(answer.text)["choices"])
        wrong = {**guided, "structured_outputs": {"regex": "("}}
        answer = await calls.reply("chat/completions", wrong)
        assert answer.status == 400 and json.loads(answer.text)["error"]["param"] == "structured_outputs"

    asyncio.run(run())


def test_a_busy_server_lists_models_and_says_that_adapters_have_no_place(adapted):
    served = serve_folder(adapted / "model", "tiny", {"max_loras": 1}, 64)
    served.llm._loras._paths["legal"] = adapted / "legal"  # known, and not in memory

    async def run():
        calls = Calls(served, 1)
        slow = SamplingParams(max_tokens=200, ignore_eos=True, token_mask=lambda tokens: time.sleep(0.05))
        stream = served.llm.stream([[5, 6]], slow, lora_request=LoRARequest("french"))
        next(stream)
        refused = await calls.reply("completions", {"model": "legal", "prompt": [5], "max_tokens": 2})
        assert refused.status == 503 and json.loads(refused.text)["error"]["code"] == "overloaded"
        with pytest.raises(camshaft.InvalidArgumentError, match="there is no place for the adapter 'legal'"):
            served.llm.add_lora(LoRARequest("legal"))
        with pytest.raises(camshaft.InvalidArgumentError, match="there is no place"):
            served.llm.add_lora(LoRARequest("third", 3, adapted / "legal"))
        assert "third" not in served.llm.list_loras()
        stream.close()
        again = await calls.reply("completions", {"model": "legal", "prompt": [5], "max_tokens": 2})
        assert again.status == 200, again.text
        calls.service._sequences = 1  # as many as may be
        assert (await calls.reply("completions", {"prompt": [5]})).status == 503
        listed = await calls.reply("models", b"")
        assert [each["id"] for each in json.loads(listed.text)] == ["tiny", "french", "legal"]

    asyncio.run(run())


def test_parameters_of_adapters_and_pictures(adapted, sees, tmp_path):
    served = serve_folder(adapted / "model", "tiny", {"lora_modules": {"legal": adapted / "legal"}}, 64)
    assert served.llm._loras.max_loras == 2
    for name in ("french", "legal"):
        with pytest.raises(camshaft.InvalidArgumentError, match=f"the adapter '{name}' has the name of the model"):
            serve_folder(adapted / "model", name, {"lora_modules": {"legal": adapted / "legal"}}, 64)
    served, _ = load(sees, "tiny", {"allowed_local_media_path": ""}, tmp_path)
    with pytest.raises(camshaft.InvalidArgumentError, match="allowed_local_media_path names the folder"):
        served.llm.prepared_image(f"file://{tmp_path}/cat.png")
    with pytest.raises(camshaft.InvalidArgumentError, match="none', which is no folder"):
        load(sees, "tiny", {"allowed_local_media_path": "none"}, tmp_path)
    for options in ({"allowed_local_media_path": str(tmp_path)}, {"limit_mm_per_prompt": {"image": 2}}):
        with pytest.raises(camshaft.InvalidArgumentError, match=f"{min(options)} is of models that read pictures"):
            LLM(adapted / "model", **options)


def test_pictures_that_are_wrong_are_named_by_their_place(sees):
    llm = LLM(sees)
    talk = talk_of(picture(30, 30, 1))["messages"]
    talk[0]["content"].insert(1, {"type": "image", "image": np.zeros((3, 3), "f4")})
    with pytest.raises(camshaft.InvalidArgumentError, match=r"^messages\[0\].content\[1\]: a picture is one of PIL"):
        llm.chat(talk)
