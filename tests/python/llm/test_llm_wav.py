"""WAV files of all kinds that are read, and what is said of others."""

import os
import struct
import time

import numpy as np
import pytest
from camshaft import InvalidArgumentError, UnsupportedError
from camshaft.llm._sound import read_sound
from whisper_folders import RATE, sound


def wav_of(tag, channels, bits, data, rate=RATE, extensible=False, chunks=b"", size=None):
    """The bytes of a WAV file."""
    block = channels * bits // 8
    said = struct.pack("<HHIIHH", 0xFFFE if extensible else tag, channels, rate, rate * block, block, bits)
    if extensible:
        said += struct.pack("<HHIH", 22, bits, 0, tag) + bytes.fromhex("000000001000800000aa00389b71")
    body = b"WAVE" + chunks + b"fmt " + struct.pack("<I", len(said)) + said
    body += b"data" + struct.pack("<I", len(data) if size is None else size) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("extensible", [False, True])
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("kind", ["<f4", "<f8", "<i2", "<i4", "i3"])
def test_wav_files_of_other_numbers(tmp_path, kind, channels, extensible):
    samples = np.stack([sound(0.1, 20 + c) for c in range(channels)], axis=1)
    bits, tag = 8 * int(kind[-1]), 3 if "f" in kind else 1
    if tag == 3:
        data, atol = samples.astype(kind).tobytes(), 1e-7
    else:
        whole = np.rint(samples * 2.0 ** (bits - 1)).astype("<i4")
        data = whole.view(np.uint8).reshape(*whole.shape, 4)[..., : bits // 8].tobytes()
        atol = 2.0 ** (1 - bits) + 1e-6
    # A chunk of an odd size stands in front, and a length that nobody knew yet.
    chunks = b"LIST" + struct.pack("<I", 5) + b"INFOx\0"
    whole = wav_of(tag, channels, bits, data, extensible=extensible, chunks=chunks, size=0xFFFFFFFF)
    for given in (whole, bytearray(whole), memoryview(whole)):
        np.testing.assert_allclose(read_sound(given, RATE), samples.mean(axis=1), atol=atol)
    (tmp_path / "x.wav").write_bytes(whole)
    np.testing.assert_array_equal(read_sound(tmp_path / "x.wav", RATE), read_sound(whole, RATE))
    cut = read_sound(whole[:-1], RATE)
    assert len(cut) == len(samples) - 1, "a sample of which a part is missing is none"


def test_telephone_sounds():
    """A-law and \u00b5-law, by the numbers that G.711 has for some codes, and by each code's neighbours."""
    for tag, known in (
        (6, {0xD5: 8, 0x55: -8, 0xAA: 32256, 0x2A: -32256, 0x80: 5504, 0xC5: 264}),
        (7, {0xFF: 0, 0x7F: 0, 0x80: 32124, 0x00: -32124, 0xEF: 132, 0xF0: 120}),
    ):
        values = read_sound(wav_of(tag, 1, 8, bytes(range(256)), rate=RATE), RATE) * 32768
        assert {code: values[code] for code in known} == known
        assert len(np.unique(values)) == (256 if tag == 6 else 255)  # two zeros
        np.testing.assert_array_equal(values[:128], -values[128:])
    audioop = pytest.importorskip("audioop", reason="this Python has no audioop")
    for tag, decoded in ((6, audioop.alaw2lin), (7, audioop.ulaw2lin)):
        values = read_sound(wav_of(tag, 1, 8, bytes(range(256))), RATE) * 32768
        np.testing.assert_array_equal(values, np.frombuffer(decoded(bytes(range(256)), 2), "<i2"))


def test_other_files_are_called_by_their_names():
    for given, words in [
        (b"", "it is empty"),
        (b"\xff\xfb\x90" + bytes(99), "an MP3"),
        (b"fLaC" + bytes(99), "a FLAC"),
        (b"OggS" + bytes(99), "an Ogg"),
        (b"\0\0\0\x20ftypM4A " + bytes(99), "an MP4 or M4A"),
        (wav_of(2, 1, 4, bytes(8)), "the format 0x0002"),
        (wav_of(3, 1, 16, bytes(8)), "1 channels of floats in 16 bits; of 32, 64 bits"),
        (wav_of(1, 0, 16, bytes(8)), "0 channels of PCM"),
        (wav_of(1, 1, 64, bytes(8)), "PCM in 64 bits"),
        (wav_of(1, 1, 16, bytes(8), extensible=True).replace(b"\x9b\x71", b"\x9b\x70"), "a format that has no number"),
        (b"RIFF\0\0\0\0WAVE" + b"junk\0\0\0\0" * 1025, "within its first 1024 chunks"),
        (b"RIFF\0\0\0\0WAVEdata\4\0\0\0abcd", "before its samples"),
        (b"RIFF\0\0\0\0WAVEfmt \4\0\0\0abcddata\0\0\0\0", "what its samples are is cut off"),
        (b"RIFF\0\0\0\0WAVEjunk\xff\xff\xff\xff", "before its samples"),
    ]:
        with pytest.raises(UnsupportedError, match=words) as caught:
            read_sound(given, RATE, "talk")
        assert str(caught.value).startswith("talk: no WAV file") and "ffmpeg" in str(caught.value)
    for values in ([0.0, np.nan], [np.inf], [1e300]):
        with pytest.raises(InvalidArgumentError, match="talk has samples that are NaN or infinite"):
            read_sound(wav_of(3, 1, 64, np.array(values, "<f8").tobytes()), RATE, "talk")
    assert read_sound(wav_of(1, 1, 16, b""), RATE).shape == (0,)


def test_any_bytes_are_a_sound_or_refused():
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED", time.time_ns() % 2**32))
    print(f"CAMSHAFT_TEST_SEED={seed}")
    random = np.random.default_rng(seed)
    whole = wav_of(1, 2, 16, bytes(64), extensible=True)
    read = 0
    for _ in range(3000):
        given = bytearray(whole)
        for _ in range(random.integers(1, 4)):
            given[random.integers(len(given))] = random.integers(256)
        try:
            read += read_sound(bytes(given[: random.integers(len(given) + 1)]), RATE).ndim
        except (UnsupportedError, InvalidArgumentError):
            pass
    assert read > 0
