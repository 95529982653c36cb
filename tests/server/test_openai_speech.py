"""Sounds over OpenAI's interface, as its own client sends them: beside what the model writes without a server."""

import concurrent.futures
import http.client
import json
import os
import queue
import re
import struct
import time
from pathlib import Path

import camshaft
import numpy as np
import pytest
import whisper_folders
from language_models import serving_language_model, write_language_model

openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("tokenizers", reason="tokenizers is not installed")

import camshaft.llm  # noqa: E402

RATE = whisper_folders.RATE
TEMPERATURES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
FEW = {"max_completion_tokens": 6}


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """`tiny` hears sounds, `text` does not."""
    path = tmp_path_factory.mktemp("speech")
    whisper_folders.write_whisper(path / "hf")
    camshaft.llm.build(path / "hf", path / "models/tiny/1", tuning="heuristic")
    write_language_model(path / "models/text/1")
    return path / "models"


@pytest.fixture(scope="module")
def whisper(repository):
    return camshaft.llm.Whisper(repository / "tiny/1")


@pytest.fixture(scope="module")
def server(repository):
    with serving_language_model(repository, max_num_seqs=4, max_queued=16) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def talk(tmp_path_factory):
    return whisper_folders.write_wav(tmp_path_factory.mktemp("sounds") / "talk.wav", whisper_folders.sound(3.3, 3))


def wanted(whisper, talk, **options):
    [result] = whisper.transcribe(talk, **{"language": "en", "temperature": TEMPERATURES, **options})
    return result


def test_texts_are_the_models_own(client, whisper, talk):
    expected = wanted(whisper, talk)
    assert len(expected.text) > 5
    with open(talk, "rb") as file:
        got = client.audio.transcriptions.create(model="tiny", file=file, language="en")
    assert got.text == expected.text and got.usage.type == "duration" and got.usage.seconds == 4
    told = client.audio.transcriptions.create(model="tiny", file=talk)  # the model tells the language
    assert told.text == wanted(whisper, talk, language=None).text
    warm = wanted(whisper, talk, temperature=0.7, prompt="a valve")
    got = client.audio.transcriptions.create(
        model="tiny", file=talk, language="EN", temperature=0.7, prompt="a valve", extra_body={"seed": 0}
    )
    assert got.text == warm.text
    other = client.audio.transcriptions.create(
        model="tiny", file=talk, language="en", temperature=0.7, prompt="a valve", extra_body={"seed": 1}
    )
    assert other.text != warm.text
    likeliest = client.audio.transcriptions.create(
        model="tiny", file=talk, language="en", temperature=0.7, extra_body={"top_k": 1, **FEW}
    )
    assert likeliest.text == wanted(whisper, talk, temperature=0, max_tokens=6).text


def test_all_formats(client, whisper, talk):
    plain, timed = wanted(whisper, talk), wanted(whisper, talk, timestamps=True)
    asked = {"model": "tiny", "file": talk, "language": "en"}
    assert client.audio.transcriptions.create(**asked, response_format="text") == plain.text + "\n"
    srt = client.audio.transcriptions.create(**asked, response_format="srt")
    assert srt.startswith("1\n00:00:0") and srt.count(" --> ") == len(timed.segments)
    vtt = client.audio.transcriptions.create(**asked, response_format="vtt")
    assert vtt.startswith("WEBVTT\n\n00:00:0") and vtt.count(" --> ") == len(timed.segments)
    verbose = client.audio.transcriptions.create(
        **asked, response_format="verbose_json", timestamp_granularities=["segment"]
    )
    assert (verbose.text, verbose.language) == (timed.text, "en") and verbose.duration == pytest.approx(3.3)
    for got, expected in zip(verbose.segments, timed.segments, strict=True):
        for name in ("id", "start", "end", "text", "tokens", "temperature"):
            assert getattr(got, name) == getattr(expected, name), name
        assert 0 < got.no_speech_prob < 1 and got.avg_logprob == pytest.approx(expected.avg_logprob, rel=1e-3)
    assert [each.seek for each in verbose.segments] == sorted(each.seek for each in verbose.segments)
    english = client.audio.translations.create(model="tiny", file=talk, extra_body={"language": "de"})
    assert english.text == wanted(whisper, talk, language="de", task="translate").text
    verbose = client.audio.translations.create(model="tiny", file=talk, response_format="verbose_json")
    assert verbose.language == "en" and verbose.segments


def test_streams_are_the_replies(client, whisper, talk):
    expected = wanted(whisper, talk)
    for form in ("json", "text"):
        events = list(
            client.audio.transcriptions.create(
                model="tiny",
                file=talk,
                language="en",
                stream=True,
                response_format=form,
                extra_body={"stream_include_usage": True},
            )
        )
        *deltas, done = events
        assert all(event.type == "transcript.text.delta" for event in deltas) and deltas
        assert "".join(event.delta for event in deltas) == done.text == expected.text
        assert done.type == "transcript.text.done"
        assert done.usage.input_token_details.audio_tokens == 4 * 50  # of its four windows
        assert done.usage.output_tokens > 0
        assert done.usage.total_tokens == done.usage.input_tokens + done.usage.output_tokens
    silent = list(client.audio.transcriptions.create(model="tiny", file=("a.wav", wav(b"")), stream=True))
    assert [(event.type, event.text) for event in silent] == [("transcript.text.done", "")]


def test_the_documentations_client(server, talk, tmp_path, monkeypatch, capsys):
    page = (Path(__file__).parents[2] / "docs/llm_speech.md").read_text()
    [block] = [b for b in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "import openai" in b]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "build").mkdir()
    (tmp_path / "build/talk.wav").write_bytes(talk.read_bytes())
    assert 'model="whisper"' in block
    exec(block.replace("localhost:8000", server.http).replace('"whisper"', '"tiny"'), {})
    assert "transcript.text.done" in capsys.readouterr().out


def test_many_clients_at_once(server, client, whisper):
    sounds = [(whisper_folders.sound(0.3 + 0.4 * (seed % 7), seed), seed) for seed in range(14)]
    alone = [wanted(whisper, samples, temperature=0, max_tokens=6).text for samples, _ in sounds]
    assert len(set(alone)) > 5

    def ask(pair):
        samples, seed = pair
        data = wav(np.asarray(samples, "<f4").tobytes(), tag=3, bits=32)
        asked = {"model": "tiny", "file": (f"{seed}.wav", data), "language": "en", "temperature": 0.9}
        if seed % 2:
            return client.audio.transcriptions.create(**asked, extra_body={"top_k": 1, **FEW}).text
        stream = client.audio.transcriptions.create(**asked, extra_body={"top_k": 1, **FEW}, stream=True)
        return "".join(event.delta for event in stream if event.type == "transcript.text.delta")

    before = counted(server, "vllm:request_success_total")
    with concurrent.futures.ThreadPoolExecutor(len(sounds)) as pool:
        assert list(pool.map(ask, sounds)) == alone
    end = time.monotonic() + 20  # which is told every 0.2 s
    while counted(server, "vllm:request_success_total") < before + len(sounds):
        assert time.monotonic() < end
        time.sleep(0.1)
    assert counted(server, "vllm:generation_tokens_total") > 0
    assert counted(server, "vllm:time_to_first_token_seconds_count") >= len(sounds)


def test_what_is_beyond_is_refused(client, whisper):
    """Of 40 calls at once 16 have places, of which 4 are heard: all others get 503, and none is lost."""
    data = wav(np.asarray(whisper_folders.sound(2, 1), "<f4").tobytes(), tag=3, bits=32)
    expected = wanted(whisper, whisper_folders.sound(2, 1), temperature=0, max_tokens=6).text

    def ask(_):
        try:
            asked = {"model": "tiny", "file": ("a.wav", data), "language": "en", "temperature": 0.5}
            return client.audio.transcriptions.create(**asked, extra_body={"top_k": 1, **FEW}).text
        except openai.InternalServerError as error:
            assert error.status_code == 503 and error.response.headers["Retry-After"]
            return None

    with concurrent.futures.ThreadPoolExecutor(40) as pool:
        texts = list(pool.map(ask, range(40)))
    assert set(texts) <= {expected, None} and texts.count(expected) >= 16


def wav(data, tag=1, bits=16, rate=RATE):
    head = struct.pack(
        "<4sIHHIIHH4sI", b"fmt ", 16, tag, 1, rate, rate * bits // 8, bits // 8, bits, b"data", len(data)
    )
    return b"RIFF" + struct.pack("<I", 4 + len(head) + len(data)) + b"WAVE" + head + data


WRONG = [
    ({"language": "xx"}, "language"),
    ({"response_format": "diarized_json"}, "response_format"),
    ({"temperature": 3}, "temperature"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": "e5"}, "temperature"),
    ({"stream": True, "response_format": "srt"}, "stream"),
    ({"extra_body": {"stream": "maybe"}}, "stream"),
    ({"timestamp_granularities": ["word"], "response_format": "verbose_json"}, "timestamp_granularities"),
    ({"timestamp_granularities": ["segment"]}, "timestamp_granularities"),
    ({"include": ["logprobs"]}, "include[]"),
    ({"chunking_strategy": {"type": "server_vad"}}, "chunking_strategy[type]"),
    ({"extra_body": {"top_p": 2}}, "top_p"),
    ({"extra_body": {"seed": 1.5}}, "seed"),
    ({"extra_body": {"max_completion_tokens": 0}}, "max_completion_tokens"),
    ({"extra_body": {"frobnicate": 1}}, "frobnicate"),
    ({"file": ("a.mp3", b"ID3" + bytes(50))}, "file"),
    ({"file": ("a.wav", b"")}, "file"),
    ({"file": ("a.wav", wav(np.array([np.nan], "<f8").tobytes(), 3, 64))}, "file"),
    ({"file": ("a.wav", wav(bytes(9000), rate=500))}, "file"),
    ({"file": ("a.wav", wav(bytes(4_000_000), bits=8, rate=1000))}, "file"),  # more than an hour
    ({"file": ("a.wav", wav(bytes((25 << 20) + 1)))}, "file"),
    ({"file": ("a.wav", wav(bytes(27 << 20)))}, "file"),
    ({"model": "text"}, "model"),
]


@pytest.mark.parametrize("changes, param", WRONG, ids=[f"{number}-{param}" for number, (_, param) in enumerate(WRONG)])
def test_what_is_wrong_is_named(client, changes, param):
    asked = {"model": "tiny", "file": ("a.wav", wav(bytes(3200))), **changes}
    with pytest.raises(openai.BadRequestError) as caught:
        result = client.audio.transcriptions.create(**asked)
        list(result)  # of a stream
    assert caught.value.param == param and len(caught.value.message) < 600
    assert caught.value.type == "invalid_request_error"


def test_models_have_their_routes(client, talk):
    with pytest.raises(openai.BadRequestError, match="hears sounds: send them to /v1/audio/transcriptions") as caught:
        client.completions.create(model="tiny", prompt="x")
    assert caught.value.param == "model"
    with pytest.raises(openai.BadRequestError, match="'text' generates text"):
        client.audio.transcriptions.create(model="text", file=talk)
    with pytest.raises(openai.NotFoundError):
        client.audio.transcriptions.create(model="other", file=talk)


def post(server, body, content_type="multipart/form-data; boundary=b", path="/v1/audio/transcriptions"):
    connection = http.client.HTTPConnection(server.http, timeout=60)
    try:
        connection.request("POST", path, body, {"Content-Type": content_type} if content_type else {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def part(name, content, more=""):
    head = f'--b\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + content + b"\r\n"


FILE = part("file", wav(bytes(3200)), '; filename="a.wav"')
NAMED = part("model", b"tiny") + part("language", b"en") + part("max_completion_tokens", b"2")


def test_hostile_bodies(server):
    whole = NAMED + FILE + b"--b--\r\n"
    assert post(server, whole)[0] == 200
    for body, content_type in [
        (whole, None),
        (whole, "application/json"),
        (whole, "multipart/form-data"),
        (whole, "multipart/form-data; boundary=" + "b" * 71),
        (whole, "multipart/form-data; boundary=other"),
        (b"{}", "application/json"),
        (b"", "multipart/form-data; boundary=b"),
        (NAMED + b"--b--", "multipart/form-data; boundary=b"),  # no file
        (NAMED + FILE + FILE + b"--b--", "multipart/form-data; boundary=b"),
        (NAMED + NAMED + FILE + b"--b--", "multipart/form-data; boundary=b"),
        (NAMED + part("file", b"x") + b"--b--", "multipart/form-data; boundary=b"),  # a text
        (NAMED + FILE + part("prompt", b"\xff") + b"--b--", "multipart/form-data; boundary=b"),
        (NAMED + FILE + part("prompt", b"x" * 70000) + b"--b--", "multipart/form-data; boundary=b"),
        (NAMED + FILE + part("prompt", b"x", '; filename="x"') + b"--b--", "multipart/form-data; boundary=b"),
        (
            NAMED + FILE + part("timestamp_granularities[]", b"x" * 70000, '; filename="x"') + b"--b--",
            "multipart/form-data; boundary=b",
        ),
        (NAMED + FILE + part("x[]", b"x") * 61 + b"--b--", "multipart/form-data; boundary=b"),
        (NAMED + FILE + part("temperature", b"1" * 5000) + b"--b--", "multipart/form-data; boundary=b"),
        (NAMED + FILE + part("temperature", b"nan") + b"--b--", "multipart/form-data; boundary=b"),
        (NAMED + FILE + b"--b\r\nX: " + b"y" * 9000 + b"\r\n\r\nz\r\n--b--", "multipart/form-data; boundary=b"),
        (NAMED + FILE, "multipart/form-data; boundary=b"),
    ]:
        status, reply = post(server, body, content_type)
        assert status == 400, (body[:100], content_type, reply)
        assert 10 < len(json.loads(reply)["error"]["message"]) < 500
    for size in range(0, len(NAMED) + 200, 7):  # cut off
        assert post(server, whole[:size])[0] == 400
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED", time.time_ns() % 2**32))
    print(f"CAMSHAFT_TEST_SEED={seed}")
    random = np.random.default_rng(seed)
    for _ in range(100):
        body = bytearray(whole)
        for _ in range(random.integers(1, 5)):
            body[random.integers(len(NAMED) + 150)] = random.integers(256)
        assert post(server, bytes(body))[0] in (200, 400, 404)
    assert post(server, whole)[0] == 200


def test_large_bodies_leave_nothing(server):
    """Of 25 MiB each, refused or heard to their end, which is soon where nothing but a header is of another kind."""
    refused = NAMED + part("file", b"ID3" + bytes(24 << 20), '; filename="a.mp3"') + b"--b--"
    short = NAMED + part("file", wav(bytes(3200)) + bytes(24 << 20), '; filename="a.wav"') + b"--b--"

    def all_of_them(count):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return {status for status, _ in pool.map(lambda n: post(server, (refused, short)[n % 2]), range(count))}

    assert all_of_them(48) <= {200, 400, 503}
    before = memory_of(server)
    assert all_of_them(80) <= {200, 400, 503}
    assert memory_of(server) < before + (400 << 20)  # what malloc keeps goes up and down by 100 MB; 80 bodies have 2 GB


def memory_of(server):
    """Bytes resident in the server and in the processes of its models."""
    listed = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    total = 0
    for number in {server.process.pid, *(int(each) for path in listed for each in path.read_text().split())}:
        total += 1024 * int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{number}/status").read_text())[1])
    return total


def test_clients_that_vanish(server, client):
    long = wav(np.asarray(whisper_folders.sound(60, 1), "<f4").tobytes(), tag=3, bits=32)
    for _ in range(3):
        stream = client.audio.transcriptions.create(model="tiny", file=("a.wav", long), stream=True)
        next(iter(stream))
        stream.close()
    end = time.monotonic() + 20
    while counted(server, "vllm:num_requests_running") or counted(server, "vllm:num_requests_waiting"):
        assert time.monotonic() < end, "what nobody waits for goes on"
        time.sleep(0.1)
    assert post(server, NAMED + FILE + b"--b--\r\n")[0] == 200


def counted(server, name):
    _, _, body = server.request("GET", "/metrics", port="metrics")
    lines = [line for line in body.decode().splitlines() if line.startswith(name + "{") and 'model_name="tiny"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_by_tritons_protocol(server, whisper, talk):
    """The same body as a tensor, with what HTTP says beside it as parameters."""
    grpc = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
    body = NAMED + part("file", talk.read_bytes(), '; filename="a.wav"') + part("stream", b"true") + b"--b--"
    given = grpc.InferInput("request", [1], "BYTES")
    given.set_data_from_numpy(np.array([body], np.object_))
    events = queue.SimpleQueue()
    with grpc.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: events.put((result, error)))
        about = {"operation": "audio/transcriptions", "content_type": "multipart/form-data; boundary=b"}
        client.async_stream_infer("tiny", [given], parameters=about)
        texts = []
        while not texts or texts[-1] != "[DONE]":
            result, error = events.get(timeout=60)
            assert error is None
            texts.append(result.as_numpy("response")[0].decode())
    done = json.loads(texts[-2])
    assert done["type"] == "transcript.text.done" and done["text"] == wanted(whisper, talk, max_tokens=2).text


def test_parameters_of_models_of_speech(repository):
    from camshaft.llm.openai._loading import load

    for given, words in [
        ({"num_speculative_tokens": "3"}, "a model of speech has no speculative_config"),
        ({"max_model_len": "30"}, "a model of speech has no max_model_len: it has max_num_seqs, seed, threads, device"),
        ({"max_num_seqs": "0"}, "max_num_seqs is 0"),
    ]:
        with pytest.raises(camshaft.InvalidArgumentError, match=words):
            load(repository / "tiny/1", "tiny", given, repository)
