"""Inputs for the three PP-OCRv4 models: rendered text for the recogniser, pages for the detector, lines for the classifier."""

import numpy as np
import ocr
from PIL import Image

# Ten lines that ONNX Runtime reads without an error too; other engines are held to the same.
LINES = [
    "The quick brown fox jumps over the lazy dog",
    "Pack my box with five dozen liquor jugs",
    "Invoice 2024-0817, total: 1,536.40 EUR",
    "Departures: platform 9, track 18",
    "camshaft build model.onnx -o model.engine",
    "Error: unexpected end of file (line 42)",
    "Reykjavik 64.1466 N, 21.9426 W",
    "SPHINX OF BLACK QUARTZ, JUDGE MY VOW",
    "pi is 3.14159265358979",
    "Thank you for reading this far!",
]


def lines(count, width=None):
    """The recogniser's input for the first `count` lines: f32 [count, 3, 48, width or the widest line's]."""
    return ocr.preprocess([ocr.find_lines(ocr.render([text]))[0] for text in LINES[:count]], width)


def pages(count, height, width):
    """The detector's input: `count` rendered pages scaled to height x width (multiples of 32), f32 [count, 3, h, w]."""
    pictures = [ocr.render(LINES[index : index + 4]).resize((width, height), Image.BILINEAR) for index in range(count)]
    pixels = np.stack([np.asarray(picture, np.float32).transpose(2, 0, 1)[::-1] for picture in pictures])
    return np.ascontiguousarray((pixels / 255 - 0.5) / 0.5)


def upright_and_turned(count, height=48, width=192):
    """The classifier's input: lines, every second one upside down; f32 [count, 3, height, width]."""
    crops = [ocr.find_lines(ocr.render([text]))[0] for text in LINES[:count]]
    crops = [crop.rotate(180) if index % 2 else crop for index, crop in enumerate(crops)]
    pictures = [crop.resize((width, height), Image.BILINEAR) for crop in crops]
    pixels = np.stack([np.asarray(picture, np.float32).transpose(2, 0, 1)[::-1] for picture in pictures])
    return np.ascontiguousarray((pixels / 255 - 0.5) / 0.5)
