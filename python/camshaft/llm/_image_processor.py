"""From pictures to the patches that a tower reads: what the image processors of Transformers do (CLIPImageProcessor,
SiglipImageProcessor, LlavaImageProcessor, LlavaNextImageProcessor, Qwen2VLImageProcessor), by Pillow, up to the bytes. The
engine rescales and normalises them."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from camshaft._errors import InvalidArgumentError, UnsupportedError
from camshaft.llm._fields import Fields, read_json
from camshaft.llm._optional import needed

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]
    from camshaft.llm._vision_config import VisionTower

_LARGEST_SIDE = 1 << 14  # of what becomes patches, and of squares
_LONGEST_SIDE = 1 << 16  # of what is cut
_MOST_STRETCHED = 200  # Qwen: one side over the other


class ImageInputs(NamedTuple):
    """What a tower reads of a picture, and what its rows are in the decoder."""

    arrays: dict[str, Array]
    rows: int
    height: int  # of the rows with M-RoPE, else 0
    width: int


@dataclasses.dataclass(frozen=True)
class ImageProcessor:
    """Sizes are (height, width), in pixels."""

    patch_size: int
    merge_size: int  # patches of a row, across and down
    resample: int  # Pillow's filter
    shortest_edge: int = 0  # that a picture is resized to
    size: tuple[int, int] | None = None  # the same, of both sides
    crop: tuple[int, int] | None = None  # from its middle
    square: tuple[int, int, int] | None = None  # the colour that makes it one before
    min_pixels: int = 0  # Qwen: of a picture of any size
    max_pixels: int = 0
    window: int = 0  # patches of a side
    grid_pinpoints: tuple[tuple[int, int], ...] = ()  # LLaVA-NeXT
    tile: int = 0  # its side
    keeps_class: bool = False

    def rows(self, height: int, width: int) -> int:
        """Rows that a picture of that size has in the decoder. InvalidArgumentError for one that has none."""
        if self.max_pixels:
            high, wide = self._smart_size(height, width)
            return high * wide // (self.patch_size * self.merge_size) ** 2
        if self.grid_pinpoints:
            return len(self._order(height, width))
        high, wide = self._final_size(height, width)
        return (high // self.patch_size) * (wide // self.patch_size) + self.keeps_class

    def inputs(self, picture: Any) -> ImageInputs:
        """picture: of PIL, in RGB."""
        import numpy

        width, height = picture.size
        if self.max_pixels:
            made = numpy.asarray(self._resized(picture, self._smart_size(height, width)))
            side = self.patch_size * self.merge_size
            high, wide = made.shape[0] // side, made.shape[1] // side
            return ImageInputs(self.arrays_of(made), high * wide, high, wide)
        rows = self.rows(height, width)
        if self.grid_pinpoints:
            tiles = [numpy.asarray(tile) for tile in self._tiles(picture)]
            order = numpy.asarray(self._order(height, width), numpy.int32)
            arrays = {"patches": numpy.stack([self._patches(tile, 1) for tile in tiles]), "order": order}
            return ImageInputs(arrays, rows, 0, 0)
        made = numpy.asarray(self._cropped(self._resized(self._squared(picture), self._edge_size(picture))))
        return ImageInputs({"patches": self._patches(made, 1)[None]}, rows, 0, 0)

    def _edge_size(self, picture: Any) -> tuple[int, int] | None:
        width, height = picture.size
        if self.square is not None:
            width = height = max(width, height)
        return self._resized_size(height, width)

    def _resized_size(self, height: int, width: int) -> tuple[int, int] | None:
        if self.size is not None:
            return self.size
        if not self.shortest_edge:
            return None
        short, long = min(height, width), max(height, width)
        longer = int(self.shortest_edge * long / short)
        return (longer, self.shortest_edge) if width <= height else (self.shortest_edge, longer)

    def _final_size(self, height: int, width: int) -> tuple[int, int]:
        given = f"a picture of {width} x {height} pixels"
        if self.square is not None:
            height = width = max(height, width)
        between = self._resized_size(height, width) or (height, width)
        if max(between) > _LONGEST_SIDE or (self.square is not None and height > _LARGEST_SIDE):
            raise InvalidArgumentError(
                f"{given} would become one of {between[1]} x {between[0]} before it is cut: crop it"
            )
        high, wide = self.crop or between
        if self.tile and (high, wide) != (self.tile, self.tile):
            raise InvalidArgumentError(
                f"{given} becomes one of {wide} x {high}, and the model reads "
                f"{self.tile} x {self.tile}: resize or crop it"
            )
        return high, wide

    def most_rows(self) -> int:
        """Of a picture, where max_pixels says how many: a thin one keeps a row's width, and may have more pixels."""
        rows = self.max_pixels // (self.patch_size * self.merge_size) ** 2
        return max(rows, math.isqrt(_MOST_STRETCHED * rows) + 1)

    def _smart_size(self, height: int, width: int) -> tuple[int, int]:
        """Multiples of what a row shows, of nearly the picture's shape, with min_pixels to max_pixels."""
        factor = self.patch_size * self.merge_size
        if max(height, width) / min(height, width) > _MOST_STRETCHED:
            raise InvalidArgumentError(
                f"a picture of {width} x {height} pixels: one side is more than {_MOST_STRETCHED} times the other"
            )
        high, wide = round(height / factor) * factor, round(width / factor) * factor
        if high * wide > self.max_pixels:
            beta = math.sqrt(height * width / self.max_pixels)
            high = max(factor, math.floor(height / beta / factor) * factor)
            wide = max(factor, math.floor(width / beta / factor) * factor)
        elif high * wide < self.min_pixels:
            beta = math.sqrt(self.min_pixels / (height * width))
            high, wide = math.ceil(height * beta / factor) * factor, math.ceil(width * beta / factor) * factor
        return high, wide

    def _resized(self, picture: Any, size: tuple[int, int] | None) -> Any:
        if size is None or (size[1], size[0]) == picture.size:
            return picture
        return picture.resize((size[1], size[0]), resample=self.resample)

    def _squared(self, picture: Any) -> Any:
        if self.square is None or picture.width == picture.height:
            return picture
        side = max(picture.size)
        image = needed("PIL.Image", "pictures")
        made = image.new("RGB", (side, side), self.square)
        made.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
        return made

    def _cropped(self, picture: Any) -> Any:
        """From the middle; where it is too small there is black around it, as Transformers has it."""
        if self.crop is None or (self.crop[1], self.crop[0]) == picture.size:
            return picture
        high, wide = self.crop
        around_y = math.ceil(max(high - picture.height, 0) / 2)
        around_x = math.ceil(max(wide - picture.width, 0) / 2)
        top, left = (picture.height - high) // 2 + around_y, (picture.width - wide) // 2 + around_x
        image = needed("PIL.Image", "pictures")
        around = image.new("RGB", (max(wide, picture.width), max(high, picture.height)))
        around.paste(picture, (around_x, around_y))
        return around.crop((left, top, left + wide, top + high))

    def _patches(self, pixels: Array, merge: int) -> Array:
        """[patches, patch · patch · 3] of u8 [height, width, 3]: by squares of merge · merge."""
        import numpy

        side = self.patch_size
        high, wide = pixels.shape[0] // side // merge, pixels.shape[1] // side // merge
        cut = pixels[: high * merge * side, : wide * merge * side]
        apart = cut.reshape(high, merge, side, wide, merge, side, 3).transpose(0, 3, 1, 4, 2, 5, 6)
        return numpy.ascontiguousarray(apart).reshape(high * wide * merge * merge, side * side * 3)

    def arrays_of(self, pixels: Array) -> dict[str, Array]:
        """Qwen: what the tower reads of u8 [height, width, 3], of a size that its rows fill."""
        import numpy

        merge = self.merge_size
        high, wide = pixels.shape[0] // self.patch_size, pixels.shape[1] // self.patch_size
        places = numpy.indices((high, wide), numpy.int32).reshape(2, high // merge, merge, wide // merge, merge)
        arrays = {
            "patches": self._patches(pixels, merge),
            "positions": numpy.ascontiguousarray(places.transpose(1, 3, 2, 4, 0)).reshape(-1, 2),
        }
        rows = high * wide // merge**2
        if self.window:
            order, starts = self._windows(high // merge, wide // merge)
            for name, array in arrays.items():
                arrays[name] = array.reshape(rows, merge**2, -1)[order].reshape(len(array), -1)
            arrays |= {"window_starts": starts, "order": numpy.argsort(order).astype(numpy.int32)}
        return arrays

    def _windows(self, high: int, wide: int) -> tuple[Array, Array]:
        """The picture's rows by windows, and where the patches of each begin and end."""
        import numpy

        side = self.window // self.merge_size
        numbers = numpy.arange(high * wide).reshape(high, wide)
        parts = [
            numbers[y : y + side, x : x + side].reshape(-1) for y in range(0, high, side) for x in range(0, wide, side)
        ]
        lengths = [len(part) * self.merge_size**2 for part in parts]
        return numpy.concatenate(parts), numpy.cumsum([0, *lengths]).astype(numpy.int32)

    def _tiles(self, picture: Any) -> list[Any]:
        """LLaVA-NeXT: the whole picture, then the tiles of a larger one, as large as a pinpoint has room for."""
        high, wide = self._best_pinpoint(picture.height, picture.width)
        down, across = high / picture.height, wide / picture.width
        if across < down:
            size = min(math.ceil(picture.height * across), high), wide
        else:
            size = high, min(math.ceil(picture.width * down), wide)
        image = needed("PIL.Image", "pictures")
        canvas = image.new("RGB", (wide, high))
        canvas.paste(self._resized(picture, size), ((wide - size[1]) // 2, (high - size[0]) // 2))
        tiles = [
            canvas.crop((x, y, x + self.tile, y + self.tile))
            for y in range(0, high, self.tile)
            for x in range(0, wide, self.tile)
        ]
        return [self._resized(picture, (self.tile, self.tile)), *tiles]

    def _best_pinpoint(self, height: int, width: int) -> tuple[int, int]:
        def rank(pinpoint: tuple[int, int]) -> tuple[int, int]:
            scale = min(pinpoint[1] / width, pinpoint[0] / height)
            used = min(int(width * scale) * int(height * scale), width * height)
            return used, used - pinpoint[0] * pinpoint[1]

        return max(self.grid_pinpoints, key=rank)

    def _order(self, height: int, width: int) -> list[int]:
        """Of the rows of all tiles, one behind the other, and a last one, the new line: those of the picture. The whole one
        first, then each row of the tiles side by side, without what is around the picture, and a new line."""
        high, wide = self._best_pinpoint(height, width)
        side = self.tile // self.patch_size
        down, across = high // self.tile * side, wide // self.tile * side
        top = left = 0
        if width / height > across / down:
            top = (down - int(round(height * (across / width), 7))) // 2
        else:
            left = (across - int(round(width * (down / height), 7))) // 2
        newline = side * side * (1 + high // self.tile * (wide // self.tile))
        made = list(range(side * side))
        for y in range(top, down - top):
            for x in range(left, across - left):
                tile = 1 + y // side * (wide // self.tile) + x // side
                made.append(tile * side * side + y % side * side + x % side)
            made.append(newline)
        return made


def preprocessor_fields(folder: Path) -> Fields:
    """Of preprocessor_config.json, or of what Transformers 5 writes instead; none where neither is there."""
    path = folder / "preprocessor_config.json"
    if path.is_file():
        return Fields(read_json(path), str(path))
    path = folder / "processor_config.json"
    if not path.is_file():
        return Fields({}, str(folder / "preprocessor_config.json"))
    around = Fields(read_json(path), str(path))
    return around.within("image_processor") if around.has("image_processor") else Fields({}, str(path))


def read_processor(fields: Fields, tower: VisionTower) -> ImageProcessor:
    """fields: of preprocessor_fields()."""
    if not fields.flag("do_convert_rgb", default=True):
        raise UnsupportedError(f"{fields.where}: field 'do_convert_rgb' is false: pictures become RGB here")
    is_qwen = tower.projector is None
    resample = fields.integer("resample", default=3, low=0, high=5)
    resizes = fields.flag("do_resize", default=True)
    if is_qwen:
        return _read_qwen(fields, tower, resample, resizes)
    side = tower.image_size
    size = _size_of(fields, "size", {"shortest_edge": side})
    crops = fields.flag("do_center_crop", default="crop_size" in fields.values)
    crop = _size_of(fields, "crop_size", {"height": side, "width": side}) if crops else None
    square = None
    if fields.flag("do_pad", default=False) and not tower.grid_pinpoints:
        mean = fields.numbers("image_mean", 3) if fields.has("image_mean") else [0.0, 0.0, 0.0]
        square = tuple(min(max(int(each * 255), 0), 255) for each in mean)
    made = ImageProcessor(
        tower.patch_size,
        1,
        resample,
        shortest_edge=size[0] if resizes and size[1] == 0 else 0,
        size=size if resizes and size[1] else None,
        crop=crop,
        square=square,  # type: ignore[arg-type]
        grid_pinpoints=tower.grid_pinpoints,
        tile=side,
        keeps_class=tower.keeps_class,
    )
    if made.grid_pinpoints and (
        not resizes or size not in ((side, 0), (side, side)) or crop not in (None, (side, side))
    ):
        fields.wrong(("size", "crop_size"), f"{side}, as the tower's image_size is", fields.raw("size", default=None))
    return made


def _read_qwen(fields: Fields, tower: VisionTower, resample: int, resizes: bool) -> ImageProcessor:
    if not resizes:
        raise UnsupportedError(f"{fields.where}: field 'do_resize' is false: patches need sizes that they fill")
    for name, value in (("patch_size", tower.patch_size), ("merge_size", tower.merge_size)):
        if fields.integer(name, default=value) != value:
            fields.wrong((name,), f"the tower's, {value}", fields.raw(name))
    size = fields.within("size") if fields.has("size") else Fields({}, fields.where)
    least = fields.integer("min_pixels", default=None, high=1 << 30) if fields.has("min_pixels") else None
    most = fields.integer("max_pixels", default=None, high=1 << 30) if fields.has("max_pixels") else None
    # Some files have these for a size, and both names mean pixels.
    least = least or size.integer("shortest_edge", "min_pixels", default=56 * 56, high=1 << 30)
    most = most or size.integer("longest_edge", "max_pixels", default=28 * 28 * 1280, high=1 << 30)
    factor = (tower.patch_size * tower.merge_size) ** 2
    if most < factor or least > most:
        fields.wrong(("max_pixels", "size"), f"{factor} pixels of a row or more, and no fewer than min_pixels", most)
    return ImageProcessor(
        tower.patch_size, tower.merge_size, resample, min_pixels=least, max_pixels=most, window=tower.window
    )


def _size_of(fields: Fields, name: str, usual: dict[str, int]) -> tuple[int, int]:
    """(height, width), or (shortest edge, 0)."""
    given = fields.raw(name, default=usual)
    if type(given) is int:
        given = {"shortest_edge": given} if name == "size" else {"height": given, "width": given}
    sizes = Fields(given, f"{fields.where}, '{name}'")
    if sizes.has("shortest_edge"):
        return sizes.integer("shortest_edge", high=_LARGEST_SIDE), 0
    return sizes.integer("height", high=_LARGEST_SIDE), sizes.integer("width", high=_LARGEST_SIDE)
