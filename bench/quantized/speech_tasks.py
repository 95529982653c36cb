"""Silero VAD: which 32 ms of a recording are speech."""

import subprocess
import tempfile
import wave
from functools import cache

import camshaft_cli
import numpy as np
from sentence_tasks import sentences
from task import Part, Task

MODEL = camshaft_cli.CACHE / "models/silero_vad/data/silero_vad_16k_op15.onnx"
RATE, CHUNK, CONTEXT = 16000, 512, 64
VOICES = ("en-gb", "en-us", "en+f3", "en+m5", "de", "fr+f2")


def spoken(text, voice, speed):
    """What espeak-ng says, at 16 kHz, in [-1, 1]."""
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run(["espeak-ng", "-v", voice, "-s", str(speed), "-w", file.name, text], check=True)
        with wave.open(file.name) as sound:
            samples, rate = np.frombuffer(sound.readframes(-1), "<i2") / 32768, sound.getframerate()
    count = len(samples) * RATE // rate
    return np.fft.irfft(np.fft.rfft(samples)[: count // 2 + 1], count) * (count / len(samples))


@cache
def recordings(count, seed):
    """Sentences between pauses, of several voices, louder and softer, in white or brown noise; f32 [chunks, 576] each: a
    chunk behind the last samples of the one before."""
    rng, made = np.random.default_rng(seed), []
    for text in sentences(count, seed):
        voice = spoken(text, str(rng.choice(VOICES)), int(rng.integers(120, 220)))
        voice = voice * rng.uniform(0.1, 0.9) / max(np.abs(voice).max(), 1e-6)
        sound = np.concatenate([np.zeros(int(rng.uniform(0.3, 1.5) * RATE)), voice, np.zeros(RATE // 2)])
        noise = rng.normal(size=len(sound))
        if rng.random() < 0.5:
            noise = np.cumsum(noise) - np.linspace(0, noise.sum(), len(noise))
        sound = sound + noise / noise.std() * rng.choice([0, 0.002, 0.01, 0.03])
        chunks = -(-len(sound) // CHUNK)
        padded = np.zeros(CONTEXT + chunks * CHUNK, np.float32)
        padded[CONTEXT : CONTEXT + len(sound)] = sound
        made.append(np.stack([padded[i * CHUNK : i * CHUNK + CONTEXT + CHUNK] for i in range(chunks)]))
    return made


def feeds(run, chunks):
    """Runs over a recording; yields what was fed and the outputs. The state goes from chunk to chunk."""
    state = np.zeros((2, 1, 128), np.float32)
    for chunk in chunks:
        feed = {"input": chunk[None], "state": state, "sr": np.array(RATE)}
        outputs = run(feed)
        yield feed, outputs
        state = outputs[1]


def calibration():
    import rivals

    session = rivals.onnxruntime_session(MODEL, 1)
    return [
        feed
        for recording in recordings(24, 7)
        for i, (feed, _) in enumerate(feeds(lambda feed: session.run(None, feed), recording))
        if i % 4 == 0
    ]


def decisions(run, count):
    """Whether each chunk is speech."""
    said = [outputs[0].item() for recording in recordings(count, 8) for _, outputs in feeds(run, recording)]
    return np.array(said) > 0.5


TASKS = (
    Task(
        "Silero VAD",
        "chunks decided as in fp32, %",
        (Part("silero", lambda: MODEL, calibration),),
        120,
        decisions,
        lambda answer, in_fp32: 100 * float(np.mean(answer == in_fp32)),
        least=99.5,
    ),
)
