"""What llm.json says of a model that reads pictures, under "vision": what its runs must know of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from camshaft._errors import CorruptEngineError, InvalidModelError
from camshaft.llm._fields import Fields
from camshaft.llm._image_processor import ImageProcessor
from camshaft.llm._vision_config import VISION_MODELS, VisionTower


@dataclasses.dataclass(frozen=True)
class Vision:
    model_type: str
    image_token_id: int
    placeholder_ids: list[int]  # of a picture in a text: the token, and what may be around it
    processor: ImageProcessor


def vision_of(tower: VisionTower, processor: ImageProcessor) -> dict[str, Any]:
    return {
        "model_type": tower.model_type,
        "image_token_id": tower.image_token_id,
        "placeholder_ids": list(tower.placeholder_ids),
        "processor": dataclasses.asdict(processor),
    }


def read_vision(description: dict[str, Any], where: Path) -> Vision:
    """Of llm.json. CorruptEngineError names a field that is no such thing."""
    try:
        whole = Fields(description, str(where))
        most = whole.integer("vocabulary", high=1 << 24) - 1
        fields = whole.within("vision")
        kind = fields.text("model_type")
        if kind not in VISION_MODELS:
            fields.wrong(("model_type",), f"one of {', '.join(VISION_MODELS)}", kind)
        given = fields.within("processor")
        token = fields.integer("image_token_id", low=0, high=most)
        around: Any = fields.raw("placeholder_ids", default=[token])
        if not isinstance(around, list) or around.count(token) != 1 or not all(type(each) is int for each in around):
            fields.wrong(("placeholder_ids",), "a list of tokens with image_token_id", around)
        if not all(0 <= each <= most for each in around):
            fields.wrong(("placeholder_ids",), f"a list of tokens from 0 to {most}", around)
        made = Vision(kind, token, around, _processor(given))
        is_whole = made.processor.max_pixels or made.processor.tile
        if not is_whole or made.processor.window % made.processor.merge_size:
            given.wrong(("max_pixels", "tile", "window"), "a size that the model reads", made.processor.window)
        return made
    except InvalidModelError as error:
        raise CorruptEngineError(str(error)) from None


def _processor(fields: Fields) -> ImageProcessor:
    side, pixels = 1 << 14, 1 << 30
    pinpoints: Any = fields.raw("grid_pinpoints", default=[])
    if not isinstance(pinpoints, list):
        fields.wrong(("grid_pinpoints",), "a list of sizes", pinpoints)
    colour = _numbers(fields, "square", 3, 0, 255)
    tile = fields.integer("tile", default=0, low=0, high=side)
    return ImageProcessor(
        fields.integer("patch_size", high=side),
        fields.integer("merge_size", high=16),
        fields.integer("resample", low=0, high=5),
        shortest_edge=fields.integer("shortest_edge", default=0, low=0, high=side),
        size=_numbers(fields, "size", 2, 1, side),
        crop=_numbers(fields, "crop", 2, 1, side),
        square=colour,
        min_pixels=fields.integer("min_pixels", default=0, low=0, high=pixels),
        max_pixels=fields.integer("max_pixels", default=0, low=0, high=pixels),
        window=fields.integer("window", default=0, low=0, high=side),
        grid_pinpoints=tuple(
            _numbers(Fields({"grid_pinpoints": pair}, fields.where), "grid_pinpoints", 2, max(tile, 1), side)
            for pair in pinpoints
        ),
        tile=tile,
        keeps_class=fields.flag("keeps_class", default=False),
    )


def _numbers(fields: Fields, name: str, count: int, low: int, high: int) -> Any:
    values: Any = fields.raw(name, default=None)
    if values is None:
        return None
    is_list = isinstance(values, list) and len(values) == count
    if not is_list or not all(type(value) is int and low <= value <= high for value in values):
        fields.wrong((name,), f"a list of {count} numbers from {low} to {high}", values)
    return tuple(values)
