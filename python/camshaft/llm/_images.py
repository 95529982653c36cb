"""Pictures as callers have them: of PIL, arrays, files, and the URLs of OpenAI's interface. What strangers send is looked at
before it is decoded: its format, and how many pixels it says it has."""

from __future__ import annotations

import base64
import binascii
import io
import os
import urllib.parse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from camshaft._errors import FileError, InvalidArgumentError
from camshaft.llm._optional import needed

#: Pixels of a picture: 200 MB in RGB while it is resized.
MOST_PIXELS = 1 << 26
_FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_LONGEST_FILE = 64 << 20  # bytes
_NEEDS = "pictures"


#: What refuses a picture by its height and width, before it is decoded.
Check = Callable[[int, int], None]


def as_rgb(image: Any, check: Check) -> Any:
    """A picture of PIL, in RGB, of one of PIL or an array u8 [height, width, 3] or [height, width]."""
    pil = needed("PIL.Image", _NEEDS)
    if isinstance(image, pil.Image):
        _check_size(*image.size)
        check(image.height, image.width)
        return _converted(image)
    shape, dtype = getattr(image, "shape", None), getattr(image, "dtype", None)
    if shape is None or str(dtype) != "uint8" or not (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)):
        shown = f"an array of {dtype} {list(shape)}" if shape is not None else type(image).__name__
        raise InvalidArgumentError(
            f"a picture is one of PIL, or an array of u8 [height, width, 3] or [height, width], not {shown}"
        )
    import numpy

    _check_size(shape[1], shape[0])
    check(shape[0], shape[1])
    return _converted(pil.fromarray(numpy.ascontiguousarray(image)))


def read_image(data: bytes, what: str, check: Check) -> Any:
    """In RGB, of a file's bytes; what is transparent lies on white. what: of the file, in errors."""
    pil = needed("PIL.Image", _NEEDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its own limit, above ours
            with pil.open(io.BytesIO(data), formats=_FORMATS) as image:
                _check_size(*image.size)
                check(image.height, image.width)
                image.load()
                if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
                    layer = image.convert("RGBA")
                    made = pil.new("RGB", layer.size, (255, 255, 255))
                    made.paste(layer, mask=layer.getchannel("A"))
                    return made
                return image.convert("RGB")
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{what}: {error}") from None
    except pil.UnidentifiedImageError:
        raise InvalidArgumentError(f"{what}: no picture in {', '.join(_FORMATS)}") from None
    except pil.DecompressionBombError:  # far above ours
        raise InvalidArgumentError(f"{what}: a picture with too many pixels; {MOST_PIXELS} are the most") from None
    except MemoryError:
        raise
    except Exception as error:  # of Pillow's decoders: SyntaxError, struct.error, EOFError, OSError, ValueError, …
        raise InvalidArgumentError(f"{what}: the picture cannot be read: {str(error)[:200]}") from None


def read_url(url: str, allowed_local_media_path: str, check: Check) -> Any:
    """In RGB, of "data:image/…;base64,…", and of "file:///…" within a folder that is allowed. No others are fetched."""
    scheme, separator, rest = url.partition(":")
    scheme = scheme.lower()
    if scheme == "data" and separator:
        return read_image(_data_of(rest), "data: URL", check)
    if scheme == "file" and separator:
        return read_file(_allowed_path(url, allowed_local_media_path), check)
    shown = url if len(url) <= 80 else url[:77] + "…"
    raise InvalidArgumentError(
        f"the URL of a picture is {shown!r}: it must be data:image/…;base64,…; nothing is fetched from elsewhere"
    )


def read_file(path: Path, check: Check) -> Any:
    if not path.is_file():
        raise FileError(f"{path}: there is no such file")
    try:
        size = os.stat(path).st_size
        if size > _LONGEST_FILE:
            raise InvalidArgumentError(f"{path}: {size} bytes, more than the {_LONGEST_FILE} of a picture")
        data = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}") from None
    return read_image(data, str(path), check)


def _data_of(rest: str) -> bytes:
    head, comma, text = rest.partition(",")
    if not comma or not head.lower().endswith(";base64"):
        raise InvalidArgumentError("the data: URL of a picture is data:image/…;base64,… with its bytes in Base64")
    if len(text) > _LONGEST_FILE * 4 // 3 + 4:
        raise InvalidArgumentError(f"the data: URL of a picture has more than {_LONGEST_FILE} bytes")
    try:
        return base64.b64decode(urllib.parse.unquote(text) if "%" in text else text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidArgumentError(f"the data: URL of a picture is no Base64: {error}") from None


def _allowed_path(url: str, allowed: str) -> Path:
    if not allowed:
        raise InvalidArgumentError(
            "file: URLs are not read: allowed_local_media_path names the folder of those that are"
        )
    parts = urllib.parse.urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise InvalidArgumentError(f"the file: URL of a picture names the host {parts.netloc[:80]!r}")
    try:
        path = Path(urllib.parse.unquote(parts.path)).resolve()
        is_within = path.is_relative_to(Path(allowed).resolve())
    except (OSError, ValueError, RuntimeError):  # a null byte, links that go round
        is_within = False
    if not is_within:  # whether there is such a file is nobody's business
        raise InvalidArgumentError("the file: URL of a picture is not within allowed_local_media_path")
    return path


def _converted(image: Any) -> Any:
    try:
        return image if image.mode == "RGB" else image.convert("RGB")
    except (OSError, ValueError, SyntaxError) as error:  # of one that was opened and not read yet
        raise InvalidArgumentError(f"the picture cannot be read: {str(error)[:200]}") from None


def _check_size(width: int, height: int) -> None:
    if width < 1 or height < 1:
        raise InvalidArgumentError(f"a picture of {width} x {height} pixels has nothing to see")
    if width * height > MOST_PIXELS:
        raise InvalidArgumentError(
            f"a picture of {width} x {height} pixels; {MOST_PIXELS} are the most: make it smaller"
        )
