"""LLM.chat, and `camshaft llm chat` and `camshaft llm bench` on a small model: what they print, where they end, and that
Ctrl-C stops an answer alone."""

import json
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time

import camshaft
import pytest
from camshaft.llm import LLM, SamplingParams
from camshaft_cli import BINARY, ROOT
from llm_folders import write_chat_llama
from vision_folders import encoded, picture, write_llava

pytest.importorskip("tokenizers", reason="tokenizers is not installed")
pytest.importorskip("jinja2", reason="jinja2 is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("commands")
    write_chat_llama(path / "hf")
    camshaft.llm.build(path / "hf", path / "model", cache="f32", tuning="heuristic")
    return path / "model"


def llm_command(*arguments, **options):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable, "PYTHONUNBUFFERED": "1"}
    command = [str(BINARY), "llm", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, **options)


def test_conversations_are_answered(folder):
    llm = LLM(folder)
    params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
    talk = [{"role": "system", "content": "Be."}, {"role": "user", "content": "the engine"}]
    [output] = llm.chat(talk, params)
    assert output.prompt == "<system>Be.\n<user>the engine\n<assistant>"
    assert output.prompt_token_ids == llm.tokenizer.encode(output.prompt, add_special_tokens=False).ids
    assert output.prompt_token_ids[0] != 0, "the template writes the first token, where there is one"
    [plain] = llm.generate([output.prompt_token_ids], params)
    assert plain.outputs[0].token_ids == output.outputs[0].token_ids
    outputs = llm.chat([talk, talk[1:]], params)
    assert [o.prompt for o in outputs] == [output.prompt, "<user>the engine\n<assistant>"]
    assert outputs[0].outputs[0].text == output.outputs[0].text
    assert llm.chat(talk, params, chat_template_kwargs={"loud": True})[0].prompt.endswith("!")
    assert llm.chat(talk, params, chat_template="short")[0].prompt == "the engine"
    talk.append({"role": "assistant", "content": "It turns"})
    going_on = llm.chat(talk, params, add_generation_prompt=False, continue_final_message=True)
    assert going_on[0].prompt.endswith("<assistant>It turns")
    prompt = llm.chat_prompt(talk)
    assert list(prompt) == ["prompt", "prompt_token_ids"]
    with pytest.raises(camshaft.InvalidArgumentError, match="a conversation has one message"):
        llm.chat([], params)


def test_a_conversation_through_a_pipe(folder):
    lines = "the engine\n/set temperature=0\n/undo\nthe engine\n/reset\nthe engine\n/stats\n/help\n/exit\nnever read\n"
    ran = llm_command(
        "chat", folder, "--system", "Be.", "--temperature", "0", "--max-tokens", "12", "--threads", "1", input=lines
    )
    assert ran.returncode == 0, ran.stderr
    answers = ran.stdout.split("\n/help")[0]
    assert re.search(r"\d+ tokens read in .* s, \d+ written, .* a second", answers)
    params = SamplingParams(temperature=0, max_tokens=12)
    talk = [{"role": "system", "content": "Be."}, {"role": "user", "content": "the engine"}]
    [expected] = LLM(folder).chat(talk, params)
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in expected.outputs[0].text)
    assert ran.stdout.count(shown.strip("\n\ufffd")) == 3, "each time after what stood before it was taken back"
    assert "Ctrl-C stops an answer." in ran.stdout and "> " not in answers.splitlines()[0][:2]


def test_what_is_wrong_ends_a_conversation_through_a_pipe(folder, tmp_path):
    for lines, message in (
        ("/nothing\n", "there is no /nothing"),
        ("/set colour=3\n", "/set NAME=VALUE"),
        ("the engine " * 3000 + "\n", "max_model_len|longest|fits"),
    ):
        ran = llm_command("chat", folder, input=lines)
        assert ran.returncode == 2 and re.search(message, ran.stderr), ran.stderr
        assert "Traceback" not in ran.stderr
    assert llm_command("chat", tmp_path, input="").returncode == 5
    assert "--temperature" in llm_command("chat", "--help").stdout


def test_bytes_that_are_no_text_are_read_as_such(folder):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    command = [str(BINARY), "llm", "chat", str(folder), "--max-tokens", "2", "--threads", "1"]
    ran = subprocess.run(command, input=b"\xff\xfe engine\n", capture_output=True, env=environment, timeout=120)
    assert ran.returncode == 0, ran.stderr


def test_flags_of_the_server_stand_behind_two_dashes(tmp_path):
    ran = llm_command("serve", tmp_path, "--port", "0", "--", "--http-thread-count=2")
    assert ran.returncode == 5 and "there is no llm.json" in ran.stderr, ran.stderr


def test_a_full_disk_is_named(tmp_path):
    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    source = write_chat_llama(tmp_path / "hf")
    ran = llm_command("build", source, "-o", tmp_path / "made", preexec_fn=small_files)
    assert ran.returncode == 5 and "model.engine: could not be written" in ran.stderr, ran
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


@pytest.mark.parametrize("after", [0.3, 0.5])
def test_a_server_that_ends_while_it_loads_leaves_nothing(folder, tmp_path, after):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable, "TMPDIR": str(tmp_path)}
    server = subprocess.Popen(
        [str(BINARY), "llm", "serve", str(folder), "--port", "0"], env=environment, stderr=subprocess.DEVNULL
    )
    time.sleep(after)  # some time while the model is loaded, or before
    server.terminate()
    assert server.wait(60) in (0, -signal.SIGTERM)
    end = time.monotonic() + 30  # whose folder a process of its own removes
    while list(tmp_path.iterdir()) and time.monotonic() < end:
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_stops_the_answer_alone(folder):
    """In a terminal: the program goes on, with what was said."""
    master, slave = pty.openpty()
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    command = [str(BINARY), "llm", "chat", str(folder), "--temperature", "2"]
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True
    )
    os.close(slave)
    seen = b""

    def wait_for(what, seconds=60, interrupts=False):
        """interrupts: what comes between a prompt and the waiting for keys is seen with the next key alone, by Python."""
        nonlocal seen
        end = time.monotonic() + seconds
        again = time.monotonic()
        while what not in seen:
            assert time.monotonic() < end, seen
            if interrupts and time.monotonic() >= again:
                process.send_signal(signal.SIGINT)
                again = time.monotonic() + 3
            if select.select([master], [], [], 0.2)[0]:
                seen += os.read(master, 65536)
        seen = seen[seen.index(what) + len(what) :]

    try:
        wait_for(b"> ")
        wait_for(b"> ", interrupts=True)  # at the prompt: nothing ends
        os.write(master, b"the engine\n")
        wait_for(b"engine\r\n")
        while len(seen) < 8:
            seen += os.read(master, 65536)
        wait_for(b"\n> ", interrupts=True)
        os.write(master, b"/stats\n")
        wait_for(b"written")
        wait_for(b"> ")
        os.write(master, b"\x04")
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_speed_is_measured(folder):
    short = ("--input-len", "20", "--output-len", "6", "--num-prompts", "5", "--threads", "1")
    ran = llm_command("bench", folder, *short, "--max-num-seqs", "1", "3", "--json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["device"], found["weights"], found["input_len"], len(found["results"])) == ("cpu", "f32", 20, 2)
    for result, seqs in zip(found["results"], (1, 3)):
        assert result["max_num_seqs"] == seqs and all(value > 0 for value in result.values())
        assert result["ttft_ms_p50"] <= result["ttft_ms_p99"] and result["itl_ms_p50"] <= result["itl_ms_p99"]
    table = llm_command("bench", folder, *short, "--max-num-seqs", "2").stdout.splitlines()
    assert len(table) == 2 and "prefill tok/s" in table[0] and len({len(line) for line in table}) == 1
    for wrong in (("--input-len", "0"), ("--output-len", "1"), ("--input-len", "6000")):
        ran = llm_command("bench", folder, *wrong)
        assert ran.returncode == 2 and "camshaft: error" in ran.stderr and "Traceback" not in ran.stderr


def test_a_draft_model_guesses_ahead(folder, tmp_path):
    """The model itself: all that it guesses comes true."""
    plain = ("chat", folder, "--temperature", "0", "--max-tokens", "30", "--threads", "1")
    answers = [
        llm_command(*plain, *more, input="the engine\n")
        for more in (
            (),
            ("--speculative-model", folder),
            ("--speculative-model", folder, "--num-speculative-tokens", "2"),
        )
    ]
    assert [ran.returncode for ran in answers] == [0, 0, 0], answers
    assert answers[0].stdout == answers[1].stdout == answers[2].stdout
    short = ("--input-len", "20", "--output-len", "31", "--num-prompts", "3", "--threads", "1", "--max-num-seqs", "2")
    ran = llm_command("bench", folder, *short, "--speculative-model", folder, "--num-speculative-tokens", "5", "--json")
    assert ran.returncode == 0, ran.stderr
    # But for the last tokens of a text, of which there are fewer than 6.
    assert 5 < json.loads(ran.stdout)["results"][0]["acceptance_length"] <= 6
    for command in (("chat", folder), ("bench", folder, *short), ("serve", folder, "--port", "0")):
        ran = llm_command(*command, "--speculative-model", tmp_path / "nowhere", input="")
        assert ran.returncode == 5 and "nowhere" in ran.stderr and "camshaft llm build" in ran.stderr, ran
        assert "Traceback" not in ran.stderr


def test_an_answer_that_cannot_be_written_ends_the_command(folder):
    environment = {**os.environ, "CAMSHAFT_PYTHON": sys.executable}
    for _ in range(4):  # a step that still ran while the process ended had it abort, now and then
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [str(BINARY), "llm", "chat", str(folder), "--max-tokens", "40"],
                input="the engine\n",
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                timeout=120,
            )
        assert done.returncode > 0 and "space" in done.stderr, done
        assert "Traceback" not in done.stderr and done.stderr.count("camshaft: error: ") == 1, done.stderr


def test_texts_that_are_too_short_are_not_measured(folder):
    done = llm_command("bench", folder, "--output-len", "2", "--max-num-seqs", "40", "--num-prompts", "1")
    assert done.returncode == 2 and "--output-len 2 is too little to measure" in done.stderr, done


def test_code_of_the_page(folder, monkeypatch):
    """docs/llm_chat.md: each block runs on a model that is there."""
    pytest.importorskip("llguidance", reason="llguidance is not installed")
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/llm_chat.md").read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 3
    (folder.parent / "build").mkdir()
    (folder.parent / "build" / "chat").symlink_to(folder)
    monkeypatch.chdir(folder.parent)
    names = {}
    for block in blocks:
        exec(block, names)


def test_pictures_are_shown_in_the_terminal(tmp_path, folder):
    pytest.importorskip("PIL", reason="Pillow is not installed")
    model = tmp_path / "model"
    camshaft.llm.build(write_llava(tmp_path / "hf"), model, cache="f32", tuning="heuristic")
    pixels = [picture(33, 47, 1), picture(20, 20, 2)]
    for number, each in enumerate(pixels):
        (tmp_path / f"{number}.png").write_bytes(encoded(each))
    options = ("--image", tmp_path / "0.png", "--temperature", "0", "--max-tokens", "6", "--threads", "1")
    lines = f"What?\nAnd?\n/reset\n/image {tmp_path / '1.png'}\nWhat?\n/undo\nWhat?\n"
    ran = llm_command("chat", model, *options, input=lines)
    assert ran.returncode == 0, ran.stderr
    llm, params = LLM(model), SamplingParams(temperature=0, max_tokens=6)

    def answer(talk):
        text = llm.chat(talk, params)[0].outputs[0].text
        talk.append({"role": "assistant", "content": text})
        return "".join("\ufffd" if ord(c) < 32 and c not in "\n\t" or 127 <= ord(c) < 160 else c for c in text) + "\n"

    first = [{"role": "user", "content": [{"type": "image", "image": pixels[0]}, {"type": "text", "text": "What?"}]}]
    second = [{"role": "user", "content": [{"type": "image", "image": pixels[1]}, {"type": "text", "text": "What?"}]}]
    expected = answer(first)
    first.append({"role": "user", "content": "And?"})
    expected += answer(first) + answer(second) + answer([{"role": "user", "content": "What?"}])
    assert ran.stdout == expected
    for arguments, lines, code, what in (
        (("chat", model, "--image", tmp_path / "none.png"), "", 5, "no such file"),
        (("chat", model, "--image", tmp_path / "hf/config.json"), "", 2, "no picture in PNG"),
        (("chat", folder, "--image", tmp_path / "0.png"), "", 2, "reads text alone"),
        (("chat", model), "/image\n", 2, "no such file|ends here"),
        (("serve", model, "--limit-mm-per-prompt", "3"), "", 2, "limit_mm_per_prompt"),
        (("serve", model, "--limit-mm-per-prompt", '{"video": 1}'), "", 2, "'video'"),
        (("serve", model, "--allowed-local-media-path", tmp_path / "none"), "", 5, "no such folder"),
    ):
        ran = llm_command(*arguments, input=lines)
        assert ran.returncode == code and re.search(what, ran.stderr), (arguments, ran)
        assert "Traceback" not in ran.stderr
