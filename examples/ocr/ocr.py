"""Reading text with the PP-OCRv4 recogniser: pictures in, the model's input tensor; the model's output, text out."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import onnx

HEIGHT = 48  # the recogniser's fixed input height, pixels
FONT = Path("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf")


def render(lines, size=32, margin=16):
    """A white picture with each of the lines of text in black, one below the other."""
    font = ImageFont.truetype(str(FONT), size)
    pitch = size + margin
    width = max(int(font.getlength(line)) for line in lines) + 2 * margin
    picture = Image.new("RGB", (width, pitch * len(lines) + margin), "white")
    for index, line in enumerate(lines):
        ImageDraw.Draw(picture).text((margin, margin // 2 + index * pitch), line, fill="black", font=font)
    return picture


def find_lines(picture, padding=4):
    """Crops of the lines of dark text on a light ground, top to bottom, `padding` pixels around each.

    A row belongs to a line when any of its pixels is dark; enough for a clean picture (a photograph needs a detector).
    """
    dark = np.asarray(picture.convert("L")) < 128
    rows = np.flatnonzero(np.diff(np.concatenate([[False], dark.any(axis=1), [False]]).astype(np.int8)))
    crops = []
    for top, bottom in zip(rows[::2], rows[1::2]):
        columns = np.flatnonzero(dark[top:bottom].any(axis=0))
        box = (columns[0] - padding, top - padding, columns[-1] + 1 + padding, bottom + padding)
        crops.append(
            picture.crop((max(box[0], 0), max(box[1], 0), min(box[2], picture.width), min(box[3], picture.height)))
        )
    return crops


def preprocess(crops, width=None):
    """The recogniser's input, f32 [len(crops), 3, 48, width]: each crop scaled to the height, values to [-1, 1], and
    padded on the right with 0. `width` defaults to the widest crop's."""
    scaled = [
        crop.convert("RGB").resize((max(1, round(crop.width * HEIGHT / crop.height)), HEIGHT), Image.BILINEAR)
        for crop in crops
    ]
    width = width or max(crop.width for crop in scaled)
    batch = np.zeros((len(scaled), 3, HEIGHT, width), np.float32)
    for row, crop in zip(batch, scaled):
        pixels = np.asarray(crop, np.float32).transpose(2, 0, 1)[::-1, :, :width]  # the model was trained on BGR
        row[:, :, : pixels.shape[2]] = (pixels / 255 - 0.5) / 0.5
    return batch


def alphabet(model):
    """The recogniser's classes: the blank, the characters of its metadata entry `character`, the space."""
    metadata = {entry.key: entry.value for entry in onnx.load(str(model)).metadata_props}
    return ["", *metadata["character"].splitlines(), " "]


def decode(probabilities, classes):
    """Greedy CTC: f32 [batch, time, classes] to one string a row; repeats are merged, then blanks are dropped."""
    texts = []
    for best in probabilities.argmax(axis=2):
        kept = best[np.concatenate([[True], best[1:] != best[:-1]])]
        texts.append("".join(classes[index] for index in kept))
    return texts
