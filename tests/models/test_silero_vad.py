"""Silero VAD on speech: one engine for both sample rates, its state carried from chunk to chunk.

The sample rate is an input and chooses the branch of an If that holds all of the network. Inside, further Ifs drop an
axis where one step of it is left, so that their branches differ in rank.
"""

import subprocess
import wave

import camshaft_cli
import numpy as np
import pytest
import rivals

MODEL = camshaft_cli.CACHE / "models/silero_vad/data/silero_vad.onnx"
CHUNKS = 100  # of 32 ms
BEFORE = 25  # chunks of silence, ahead of the speech


def spoken(folder):
    """What espeak-ng says: samples in [-1, 1], and their rate in Hz."""
    file = folder / "speech.wav"
    text = "Good morning. The train to the city leaves from platform two."
    subprocess.run(["espeak-ng", "-v", "en", "-s", "170", "-w", file, text], check=True)
    with wave.open(str(file)) as sound:
        assert (sound.getnchannels(), sound.getsampwidth()) == (1, 2)
        return np.frombuffer(sound.readframes(-1), "<i2").astype(np.float32) / 32768, sound.getframerate()


def resampled(samples, rate, to):
    """At another rate, through the spectrum: what the new rate cannot hold is left out."""
    count = len(samples) * to // rate
    spectrum = np.fft.rfft(samples)[: count // 2 + 1]
    return (np.fft.irfft(spectrum, count) * (count / len(samples))).astype(np.float32)


def chunks(samples, rate):
    """f32 [1, context + chunk] for each 32 ms: the chunk behind the last samples of the one before."""
    size, context = rate * 32 // 1000, rate * 4 // 1000
    sound = np.zeros(context + CHUNKS * size, np.float32)
    speech = samples[: (CHUNKS - BEFORE) * size]
    sound[context + BEFORE * size :][: len(speech)] = speech
    return [sound[None, i * size : i * size + context + size] for i in range(CHUNKS)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("silero")
    # The model takes chunks of one length for each of two rates, which nothing in the file says.
    np.savez(
        folder / "chunk.npz",
        input=np.random.default_rng(0).normal(0, 0.1, (1, 576)).astype(np.float32),
        state=np.zeros((2, 1, 128), np.float32),
        sr=np.array(16000, np.int64),
    )
    path = folder / "vad.engine"
    camshaft_cli.camshaft("build", MODEL, "-o", path, "--inputs", folder / "chunk.npz")
    return path


@pytest.mark.parametrize("rate", [16000, 8000])
def test_speech_is_found(engine, rate, tmp_path):
    judge = rivals.onnxruntime_session(MODEL, 1)
    states = [np.zeros((2, 1, 128), np.float32)] * 2
    probabilities = []
    for chunk in chunks(resampled(*spoken(tmp_path), rate), rate):
        feeds = [{"input": chunk, "state": state, "sr": np.array(rate)} for state in states]
        ours = camshaft_cli.run(engine, feeds[0], "--threads", 1, "--quiet")
        theirs = dict(zip(("output", "stateN"), judge.run(["output", "stateN"], feeds[1])))
        assert np.abs(ours["output"] - theirs["output"]).max() < 1e-4
        assert np.abs(ours["stateN"] - theirs["stateN"]).max() < 1e-3
        states = [ours["stateN"], theirs["stateN"]]
        probabilities.append(ours["output"].item())
    assert max(probabilities[:BEFORE]) < 0.5
    assert max(probabilities[BEFORE:]) > 0.5


def test_lengths_that_the_model_does_not_take(engine):
    """The network leaves more than one step of time: ONNX Runtime fails at the LSTM, and so must this."""
    feed = {"input": np.zeros((1, 1600), np.float32), "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000)}
    with pytest.raises(RuntimeError, match="decoder/If"):
        camshaft_cli.run(engine, feed)
    with pytest.raises(Exception, match="(?i)rank|shape|dim"):
        rivals.onnxruntime_session(MODEL, 1).run(None, feed)
