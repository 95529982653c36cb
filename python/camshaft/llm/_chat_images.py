"""The pictures of a conversation, as parts of its messages have them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from camshaft._errors import InvalidArgumentError

#: What such a part is to a template, wherever its picture is from.
IMAGE_PART = {"type": "image"}


def without_images(messages: Sequence[Any], take: Callable[[Any, str], None]) -> list[Any]:
    """The messages with a mark for each picture, which is given to `take`: what it was given as, and where. Parts are
    OpenAI's {"type": "image_url", "image_url": {"url": …}}, vLLM's {"type": "image_pil", "image_pil": …}, and
    Transformers' {"type": "image", "image": …}, of PIL, an array or a URL."""
    made = []
    for place, message in enumerate(messages):
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, (list, tuple)):
            parts = []
            for number, part in enumerate(content):
                where = f"messages[{place}].content[{number}]"
                image = image_of_part(part, where)
                if image is not None:
                    take(image, where)
                parts.append(part if image is None else IMAGE_PART)
            message = {**message, "content": parts}
        made.append(message)
    return made


def image_of_part(part: Any, where: str) -> Any:
    """What a part has as a picture: a URL, or one of PIL or an array. None of a text."""
    kind = part.get("type") if isinstance(part, Mapping) else None
    if kind == "image_url":
        given = part.get("image_url")
        url = given.get("url") if isinstance(given, Mapping) else given
        if not isinstance(url, str):
            raise InvalidArgumentError(f"{where}: 'image_url' is an object with a 'url', which is a text")
        return url
    if kind in ("image", "image_pil"):
        for name in (kind, "url"):
            if part.get(name) is not None:
                return part[name]
        raise InvalidArgumentError(f"{where}: a part of the type '{kind}' has no picture as '{kind}'")
    return None
