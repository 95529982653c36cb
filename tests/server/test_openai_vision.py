"""Pictures in OpenAI's conversations, as its own client sends them, and as those do who mean ill."""

import base64
import concurrent.futures
import json
import shutil
import struct
import time
import zlib

import pytest
from language_models import serving_language_model
from test_openai_hostile import ask, memory

openai = pytest.importorskip("openai", reason="openai is not installed")
pytest.importorskip("PIL", reason="Pillow is not installed")

import camshaft.llm  # noqa: E402
from camshaft.llm import LLM, SamplingParams  # noqa: E402
from vision_folders import encoded, picture, write_llava, write_qwen  # noqa: E402

LONGEST, MOST = 160, 4
OPTIONS = {"model": "tiny", "temperature": 0, "max_tokens": 6, "extra_body": {"ignore_eos": True}}
PICTURES = [picture(33, 47, 1), picture(64, 20, 2), picture(20, 20, 3)]


@pytest.fixture(scope="module", params=["llava", "qwen2_vl"])
def repository(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    write = {"llava": write_llava, "qwen2_vl": write_qwen}[request.param]
    camshaft.llm.build(write(path / "hf"), path / "models/tiny/1", cache="f32", tuning="heuristic")
    shutil.rmtree(path / "hf")
    (path / "media").mkdir()
    (path / "media/cat.png").write_bytes(encoded(PICTURES[0]))
    (path / "secret.png").write_bytes(encoded(PICTURES[0]))
    return path


@pytest.fixture(scope="module")
def llm(repository):
    return LLM(repository / "models/tiny/1", max_model_len=LONGEST)


@pytest.fixture(scope="module")
def server(repository):
    parameters = {
        "max_model_len": LONGEST,
        "max_num_seqs": 4,
        "limit_mm_per_prompt": f'{{\\"image\\": {MOST}}}',
        "allowed_local_media_path": repository / "media",
    }
    with serving_language_model(repository / "models", **parameters) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=f"http://{server.http}/v1", api_key="none", max_retries=0) as made:
        yield made


def url_of(data):
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def shown(url, **fields):
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def talk_of(*images, text="What?"):
    return [
        {
            "role": "user",
            "content": [*(shown(url_of(encoded(each))) for each in images), {"type": "text", "text": text}],
        }
    ]


def expected(llm, talk, **options):
    params = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
    [output] = llm.chat(talk, params, **options)
    return output


def test_texts_are_the_models_own(client, llm):
    talks = [talk_of(PICTURES[0]), talk_of(PICTURES[1], PICTURES[2]), talk_of(PICTURES[1]), talk_of(text="Well?")]
    texts = []
    for talk in talks:
        got = client.chat.completions.create(messages=talk, **OPTIONS)
        wanted = expected(llm, talk)
        assert got.choices[0].message.content == wanted.outputs[0].text
        assert got.usage.prompt_tokens == len(wanted.prompt_token_ids)
        texts.append(got.choices[0].message.content)
        stream = client.chat.completions.create(messages=talk, stream=True, **OPTIONS)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == texts[-1]
    assert len(set(texts)) > 1


def test_many_at_once(client, llm):
    talks = [talk_of(*[PICTURES[(i + k) % 3] for k in range(i % 3)], text="abc"[: i % 4]) for i in range(12)]
    wanted = [expected(llm, talk).outputs[0].text for talk in talks]

    def one(talk):
        return client.chat.completions.create(messages=talk, **OPTIONS).choices[0].message.content

    with concurrent.futures.ThreadPoolExecutor(12) as threads:
        assert list(threads.map(one, talks)) == wanted


def test_a_conversation_goes_on(client, llm):
    talk = talk_of(PICTURES[0], text="A")
    talk += [{"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    got = client.chat.completions.create(messages=talk, **OPTIONS)
    assert got.choices[0].message.content == expected(llm, talk).outputs[0].text


def test_files_within_the_folder(server, repository, client, llm):
    allowed = [{"role": "user", "content": [shown(f"file://{repository}/media/cat.png", detail="low")]}]
    wanted = expected(llm, [{"role": "user", "content": [shown(url_of(encoded(PICTURES[0])))]}]).outputs[0].text
    assert client.chat.completions.create(messages=allowed, **OPTIONS).choices[0].message.content == wanted
    for name in ("secret.png", "media/../secret.png", "media/%2e%2e/secret.png", "none.png"):
        refused = [{"role": "user", "content": [shown(f"file://{repository}/{name}")]}]
        with pytest.raises(openai.BadRequestError) as error:
            client.chat.completions.create(messages=refused, **OPTIONS)
        assert (
            "allowed_local_media_path" in str(error.value) and error.value.param == "messages[0].content[0].image_url"
        )


def bomb(width, height, lines=b""):
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


GOOD = encoded(picture(40, 30, 1))
WRONG = [
    (shown("http://127.0.0.1:1/cat.png"), "nothing is fetched"),
    (shown("https://example.org/cat.png"), "nothing is fetched"),
    (shown("file:///etc/passwd"), "allowed_local_media_path"),
    (shown(url_of(GOOD[: len(GOOD) // 2])), "cannot be read"),
    (shown(url_of(b"GIF89a")), "data: URL"),
    (shown(url_of(b"<svg/>")), "no picture"),
    (shown(url_of(b"")), "no picture"),
    (shown("data:image/png;base64,!!!"), "no Base64"),
    (shown("data:image/png,abc"), "Base64"),
    (shown(url_of(bomb(100_000, 10_000))), "pixels"),
    (shown(url_of(bomb(2**31 - 1, 2**31 - 1))), "pixels"),
    (shown(url_of(bomb(8192, 8192))), "cannot be read"),
    (shown(url_of(bomb(60_000, 1, b"\0" + bytes(180_000)))), "pixels"),
    (shown(url_of(GOOD), detail="odd"), "detail"),
    (shown(url_of(GOOD), format="png"), "no field"),
    ({"type": "image_url"}, "'url'"),
    ({"type": "image_url", "image_url": {}}, "'url'"),
    ({"type": "image_url", "image_url": {"url": 3}}, "'url'"),
    ({"type": "image_url", "image_url": [1]}, "'url'"),
    ({"type": "input_audio", "input_audio": {}}, "text and pictures"),
    ({"type": "image", "image": "x"}, "text and pictures"),
    ("x", "text and pictures"),
]


@pytest.mark.parametrize("part, what", WRONG, ids=range(len(WRONG)))
def test_pictures_that_are_wrong(server, part, what):
    start = time.monotonic()
    document = {"messages": [{"role": "user", "content": [part]}], "max_tokens": 2}
    status, answer = ask(server, document, "/v1/chat/completions")
    assert status == 400 and what in answer["error"]["message"], answer
    assert answer["error"]["param"].startswith("messages[0].content[0]")
    assert len(answer["error"]["message"]) < 500 and time.monotonic() - start < 10


def test_more_pictures_than_there_is_room_for(server):
    for count, what in ((MOST + 1, "limit_mm_per_prompt"), (1000, "limit_mm_per_prompt")):
        parts = [shown(url_of(encoded(PICTURES[2])))] * count
        document = {"messages": [{"role": "user", "content": parts}], "max_tokens": 2}
        status, answer = ask(server, document, "/v1/chat/completions")
        assert status == 400 and what in answer["error"]["message"]
    text = {"type": "text", "text": "x" * LONGEST}
    document = {"messages": [{"role": "user", "content": [shown(url_of(encoded(PICTURES[0]))), text]}], "max_tokens": 2}
    status, answer = ask(server, document, "/v1/chat/completions")
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"


def test_placeholders_in_texts_are_no_pictures(server):
    for content in ("a <image> b", [shown(url_of(encoded(PICTURES[2]))), {"type": "text", "text": "<image>"}]):
        document = {"messages": [{"role": "user", "content": content}], "max_tokens": 2}
        status, answer = ask(server, document, "/v1/chat/completions")
        assert status == 400 and "placeholders" in answer["error"]["message"]
    status, answer = ask(server, {"prompt": "a <image> b", "max_tokens": 2})
    assert status == 400 and "placeholders" in answer["error"]["message"]


def test_bombs_leave_no_memory(server, client, llm):
    """Each of 67 million pixels, which are 200 MB for a while, one at a time."""
    data = bomb(8192, 8192, (b"\0" + bytes(3 * 8192)) * 8192)
    document = {"messages": [{"role": "user", "content": [shown(url_of(data))]}], "max_tokens": 2}
    body = json.dumps(document)

    def one(_):
        status, _, answer = server.request("POST", "/v1/chat/completions", body)
        return status

    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        assert list(threads.map(one, range(4))) == [200] * 4
        before = memory(server)
        assert list(threads.map(one, range(8))) == [200] * 8
    assert memory(server) - before < 100 << 20
    talk = talk_of(PICTURES[0])
    got = client.chat.completions.create(messages=talk, **OPTIONS)
    assert got.choices[0].message.content == expected(llm, talk).outputs[0].text
