"""The pictures of prompts: their rows by the tower's engine, and the placeholders that they stand in for."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from camshaft import _native
from camshaft._engine import Engine
from camshaft._errors import CorruptEngineError, Error, InvalidArgumentError
from camshaft.llm._folder import DESCRIPTION, ENCODER_ENGINE
from camshaft.llm._image_processor import ImageInputs
from camshaft.llm._images import as_rgb, read_file, read_url
from camshaft.llm._vision_description import Vision, read_vision

if TYPE_CHECKING:
    from camshaft._types import Capsule
    from camshaft._types import Path as AnyPath
    from camshaft.llm._prompts import Prompt

    Picture = tuple[int, int, int, int, bytes, Capsule]
    # A slot of a picture's rows, and the picture whose rows it waits for.
    Waiting = tuple[Capsule, "PreparedImage"]

_MOST_IMAGES = 999  # of a prompt, where nobody says, as in vLLM
_WORTH_TRIMMING = 1 << 23  # pixels
# Rows that are computed ahead, by the caller's thread. Beyond they come when the request's turn does, between two steps.
_AHEAD_BYTES = 1 << 30
_KEPT_BYTES = 256 << 20  # of rows of pictures that were seen last


@dataclass(frozen=True)
class PreparedImage:
    """A picture as the tower reads it, and what tells it from all others."""

    inputs: ImageInputs
    digest: bytes

    @property
    def nbytes(self) -> int:
        """Of what the tower reads."""
        return sum(array.nbytes for array in self.inputs.arrays.values())


class ImageEncoder:
    """May be used from several threads: one picture is resized, and one goes through the tower, at a time. longest: tokens of
    a sequence. Rows that were computed last are kept."""

    def __init__(
        self,
        folder: Path,
        description: dict[str, Any],
        decoder: Engine,
        *,
        device: str | None,
        threads: int,
        longest: int,
        limit_mm_per_prompt: Mapping[str, int] | None,
        allowed_local_media_path: AnyPath,
    ) -> None:
        self.vision: Vision = read_vision(description, folder / DESCRIPTION)
        self._where, self._longest = folder / ENCODER_ENGINE, longest
        rows = next((each for each in decoder.inputs if each.name == "image_embeddings" and each.shape), None)
        engine = Engine(self._where, device)
        made = next((each for each in engine.outputs if each.name == "image_embeddings" and each.shape), None)
        if rows is None or made is None or rows.shape[-1] != made.shape[-1]:
            raise CorruptEngineError(
                f"{folder / DESCRIPTION}: 'vision' is there, and the engines beside it do not read pictures together"
            )
        self._width = rows.shape[-1]
        self._context = engine.create_context(threads)
        self._media_path = os.fspath(allowed_local_media_path)
        if self._media_path and not os.path.isdir(self._media_path):
            raise InvalidArgumentError(f"allowed_local_media_path is {self._media_path!r}, which is no folder")
        self.limit = limit_of(limit_mm_per_prompt)
        self._preparing, self._encoding = threading.Lock(), threading.Lock()
        self._key = os.urandom(32)  # nobody can look for two pictures of one digest
        self._kept: OrderedDict[bytes, tuple[Capsule, int]] = OrderedDict()
        self._kept_bytes = 0
        self.runs = 0  #: of the tower

    def prepare(self, image: Any, before: Sequence[PreparedImage] = ()) -> PreparedImage:
        """image: of PIL, an array, a URL ("data:", and "file:" within allowed_local_media_path), or a Path; what is prepared
        already stays as it is. before: pictures of the same prompt, with which it must have room."""
        self.check_count(len(before) + 1)
        if isinstance(image, PreparedImage):
            return image
        used = sum(each.inputs.rows for each in before)

        def check(height: int, width: int) -> None:
            rows = self.vision.processor.rows(height, width)
            if used + rows > self._longest:
                others = f" behind {used} of others" if used else ""
                raise InvalidArgumentError(
                    f"a picture of {width} x {height} pixels has {rows} tokens{others}, and max_model_len is "
                    f"{self._longest}: make it smaller, or raise max_model_len where the model allows it"
                )

        with self._preparing:
            if isinstance(image, str):
                picture = read_url(image, self._media_path, check)
            else:
                picture = read_file(image, check) if isinstance(image, Path) else as_rgb(image, check)
            inputs = self.vision.processor.inputs(picture)
            is_large = picture.width * picture.height > _WORTH_TRIMMING
            del picture
            if is_large:
                _give_memory_back()
        digest = hashlib.blake2b(key=self._key, digest_size=16)
        for name, array in sorted(inputs.arrays.items()):
            digest.update(f"{name} {array.shape} ".encode())
            digest.update(array.data)
        return PreparedImage(inputs, digest.digest())

    def prepare_all(self, images: Any) -> list[PreparedImage]:
        """images: one, or a list."""
        listed = list(images) if isinstance(images, (list, tuple)) else [images]
        self.check_count(len(listed))
        made: list[PreparedImage] = []
        for image in listed:
            made.append(self.prepare(image, made))
        return made

    def check_count(self, count: int) -> None:
        if count > self.limit:
            raise InvalidArgumentError(f"a prompt has {count} pictures; limit_mm_per_prompt allows {self.limit}")

    def placeholder(self, tokenizer: Any) -> str:
        """A picture's in text, for templates that know none."""
        return "".join(tokenizer.id_to_token(token) or "" for token in self.vision.placeholder_ids)

    def of_prompt(
        self, tokens: list[int], images: Sequence[PreparedImage]
    ) -> tuple[list[int], list[Picture], list[Waiting]]:
        """The tokens with placeholders for all rows, and pictures() of these."""
        if not images and self.vision.image_token_id not in tokens:
            return tokens, [], []
        tokens = self.expanded(tokens, images)
        if len(tokens) >= self._longest:  # before the tower is asked
            raise InvalidArgumentError(
                f"the prompt has {len(tokens)} tokens with those of its pictures, max_model_len is {self._longest} with at "
                "least one of text: shorten the prompt, or raise max_model_len where the model allows it"
            )
        return tokens, *self.pictures(tokens, images)

    def expanded(self, tokens: Sequence[int], images: Sequence[PreparedImage]) -> list[int]:
        """With as many placeholders for each picture as it has rows. A prompt has one for each, or as many already."""
        placeholder = self.vision.image_token_id
        count = sum(token == placeholder for token in tokens)
        if count == sum(image.inputs.rows for image in images) and count != len(images):
            self._beginnings(tokens, images)  # or refuses what is no such prompt
            return list(tokens)
        if count != len(images):
            raise InvalidArgumentError(
                f"a prompt has {count} placeholders of pictures (token {placeholder}), and {len(images)} pictures: one "
                "stands for each"
            )
        left, made = iter(images), []
        for token in tokens:
            made += [token] * next(left).inputs.rows if token == placeholder else [token]
        return made

    def pictures(self, tokens: Sequence[int], images: Sequence[PreparedImage]) -> tuple[list[Picture], list[Waiting]]:
        """What a generator takes, and what fill() is to be called with when the request's turn comes: nothing where there was
        room to compute rows now. tokens: expanded ones."""
        made, waiting = [], []
        ahead = _native.image_bytes() + 4 * self._width * sum(image.inputs.rows for image in images) <= _AHEAD_BYTES
        for begin, image in zip(self._beginnings(tokens, images), images):
            rows, height, width = image.inputs.rows, image.inputs.height, image.inputs.width
            slot = _native.image_slot(rows * self._width)
            made.append((begin, rows, height, width, image.digest, slot))
            waiting.append((slot, image))
        if ahead:
            self.fill(waiting)
        return made, [] if ahead else waiting

    def fill(self, waiting: Sequence[Waiting]) -> None:
        """Raises what goes wrong with a picture."""
        for slot, image in waiting:
            _native.fill_image(slot, self._rows_of(image))

    def _beginnings(self, tokens: Sequence[int], images: Sequence[PreparedImage]) -> list[int]:
        placeholder = self.vision.image_token_id
        at, made = 0, []
        for image in images:
            while tokens[at] != placeholder:
                at += 1
            made.append(at)
            if any(token != placeholder for token in tokens[at : at + image.inputs.rows]):
                raise InvalidArgumentError(
                    f"a prompt has placeholders for pictures of other sizes: {image.inputs.rows} are needed at token {at}"
                )
            at += image.inputs.rows
        return made

    def _rows_of(self, image: PreparedImage) -> Capsule:
        import numpy

        with self._encoding:
            known = self._kept.get(image.digest)
            if known is not None:
                self._kept.move_to_end(image.digest)
                return known[0]
            outputs = self._context.run(image.inputs.arrays)
            self.runs += 1
            rows = numpy.ascontiguousarray(numpy.from_dlpack(outputs["image_embeddings"]), numpy.float32)
            if rows.shape[0] != image.inputs.rows:
                raise CorruptEngineError(f"{self._where}: {rows.shape[0]} rows for {image.inputs.rows} placeholders")
            if not numpy.isfinite(rows).all():
                raise Error(
                    "the tower's rows of a picture have a NaN or an infinity: its weights or its precision do not fit it "
                    "(build it with a wider type, or verify it)"
                )
            made = _native.image_embeddings(rows.ctypes.data, rows.size)
            self._keep(image.digest, made, rows.nbytes)
            return made

    def _keep(self, digest: bytes, rows: Capsule, count: int) -> None:
        self._kept[digest] = rows, count
        self._kept_bytes += count
        while self._kept_bytes > _KEPT_BYTES:
            _, (_, dropped) = self._kept.popitem(last=False)
            self._kept_bytes -= dropped


def _give_memory_back() -> None:
    """What glibc keeps of a large picture, in an arena of each thread that has read one: 200 MB, which nobody needs soon."""
    with contextlib.suppress(OSError, AttributeError):  # other C libraries have no such function
        ctypes.CDLL(None).malloc_trim(0)


def limits_of(text: str) -> dict[str, int]:
    """Of JSON, as options of programs have it."""
    try:
        limits = json.loads(text)
    except (ValueError, RecursionError):
        limits = None
    if not isinstance(limits, dict):
        raise InvalidArgumentError(f'limit_mm_per_prompt is {text[:80]!r}; JSON as {{"image": 4}} is needed')
    limit_of(limits)
    return limits


def limit_of(limit_mm_per_prompt: Mapping[str, int] | None) -> int:
    """Pictures of a prompt."""
    limits = dict(limit_mm_per_prompt or {})
    limit = limits.pop("image", _MOST_IMAGES)
    if limits:
        raise InvalidArgumentError(f"limit_mm_per_prompt has {sorted(limits)[0]!r}: models read 'image' alone")
    if type(limit) is not int or limit < 0:
        raise InvalidArgumentError(f"limit_mm_per_prompt: 'image' is {limit!r}, it must be 0 or more")
    return limit


def pictures_of(
    encoder: ImageEncoder | None, prompt: Prompt, tokens: list[int]
) -> tuple[list[int], list[Picture], list[Waiting]]:
    """ImageEncoder.of_prompt() of what a prompt brings as multi_modal_data. encoder: None of a model of text."""
    images = _images_of(prompt) if isinstance(prompt, Mapping) else None
    if encoder is not None:
        return encoder.of_prompt(tokens, [] if images is None else encoder.prepare_all(images))
    if images is not None:
        raise InvalidArgumentError("a prompt brings pictures, and the model reads text alone")
    return tokens, [], []


def _images_of(prompt: Mapping[str, Any]) -> Any:
    """What a prompt brings as multi_modal_data; None without."""
    data = prompt.get("multi_modal_data")
    if data is None:
        return None
    if not isinstance(data, Mapping) or set(data) - {"image"}:
        raise InvalidArgumentError('multi_modal_data is {"image": a picture, or a list of these}')
    images = data.get("image")
    return None if images is None or (isinstance(images, (list, tuple)) and not images) else images
