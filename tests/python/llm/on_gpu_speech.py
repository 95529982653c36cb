"""Builds a Whisper for the device and for the CPU, and prints what both write of sounds as JSON; the emulated GPU runs it."""

import json
import sys
from pathlib import Path

from camshaft.llm import Whisper, build
from whisper_folders import sound, write_whisper

folder, weights, cache = Path(sys.argv[1]), *sys.argv[2:4]
write_whisper(folder / "hf")
sounds = [sound(1, 0), sound(0.4, 1), sound(1.7, 2)]
texts = {}
for device in ("cpu", "cuda"):
    build(
        folder / "hf",
        folder / device,
        device=device,
        weights=weights,
        cache=cache,
        tuning="heuristic",
        verify=device == "cuda",
    )
    whisper = Whisper(folder / device, device=device, max_num_seqs=3)
    results = whisper.transcribe(sounds, max_tokens=4, logprob_threshold=None)
    results += whisper.transcribe(sounds[:1], language="en", timestamps=True, max_tokens=4, logprob_threshold=None)
    texts[device] = [[result.language, *(segment.tokens for segment in result.segments)] for result in results]
print(json.dumps(texts))
