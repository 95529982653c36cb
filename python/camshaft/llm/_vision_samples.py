"""What a tower of vision is verified and tuned on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from camshaft.llm._image_processor import ImageProcessor
from camshaft.llm._vision_config import VisionTower

if TYPE_CHECKING:
    from camshaft._types import Profile

_COLOURS = 3
_MOST_IMAGES = 64  # of a run of LLaVA's, which LLaVA-NeXT's tiles are
_VERIFIED_SIDE = 4  # patches of one of LLaVA's, as the reference takes minutes for a large model's


def sample_patches(tower: VisionTower, seed: int = 1) -> dict[str, Any]:
    """Two pictures of LLaVA, of a few patches; one of Qwen of several windows, the last ones cut."""
    import numpy

    random = numpy.random.default_rng(seed)
    inner = tower.patch_size**2 * _COLOURS
    if tower.projector is None:
        merge = tower.merge_size
        made = ImageProcessor(tower.patch_size, merge, 3, min_pixels=1, max_pixels=1 << 20, window=tower.window)
        sides = [tower.window * 3 // 2 // merge * merge or 2 * merge, tower.window + merge]
        pixels = random.integers(0, 256, [side * tower.patch_size for side in sides] + [3], numpy.uint8)
        return made.arrays_of(pixels)
    count = min(_VERIFIED_SIDE, tower.grid) ** 2
    inputs: dict[str, Any] = {"patches": random.integers(0, 256, (2, count, inner), numpy.uint8)}
    if tower.grid_pinpoints:
        inputs["order"] = random.permutation(2 * count + 1).astype(numpy.int32)
    return inputs


def tower_profile(tower: VisionTower, processor: ImageProcessor, longest: int) -> Profile:
    """longest: tokens of a sequence, which a picture has fewer rows than."""
    inner = tower.patch_size**2 * _COLOURS
    if tower.projector is not None:
        count = tower.grid**2
        made: Any = {"patches": ((1, 1, inner), (1, count, inner), (_MOST_IMAGES, count, inner))}
        if tower.grid_pinpoints:
            made["order"] = (1,), (5 * count,), (_MOST_IMAGES * (count + 1),)
        return made
    square = tower.merge_size**2
    most = max(min(processor.most_rows(), longest), 64)
    usual = min(1024 // square, most)
    made = {
        "patches": ((square, inner), (usual * square, inner), (most * square, inner)),
        "positions": ((square, 2), (usual * square, 2), (most * square, 2)),
    }
    if tower.window:
        of_one = (tower.window // tower.merge_size) ** 2
        made["order"] = (1,), (usual,), (most,)
        made["window_starts"] = (2,), (usual // of_one + 2,), (most + 1,)
    return made
