"""Lines of text as a scanner or a camera shows them: the words of Debian's licence texts and made-up numbers, in many fonts,
sizes and shades, with noise and blur. The same seed gives the same pictures."""

import re
import string
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

FONT_FOLDERS = (
    "dejavu",
    "liberation",
    "freefont",
    "lato",
)  # fonts-dejavu, fonts-liberation, fonts-freefont-ttf, fonts-lato
TEXTS = Path("/usr/share/common-licenses")
UNREADABLE = re.compile("Math|Hairline|Thin|ExtraLight|Oblique|Italic")  # symbols, and strokes below a pixel


@cache
def fonts():
    files = sorted(
        file
        for folder in FONT_FOLDERS
        for file in Path("/usr/share/fonts/truetype", folder).glob("*.ttf")
        if not UNREADABLE.search(file.stem)
    )
    missing = [folder for folder in FONT_FOLDERS if not any(folder in file.parts for file in files)]
    if missing:
        raise SystemExit(f"there are no fonts of {', '.join(missing)}: run scripts/setup.sh --bench")
    return files


@cache
def words():
    """Those of the licences, of letters alone, each once, sorted."""
    found = {w for file in ("GPL-3", "GFDL-1.3", "Apache-2.0", "Artistic") for w in (TEXTS / file).read_text().split()}
    return sorted(w for w in found if w.isascii() and w.isalpha() and len(w) < 14)


def number(rng):
    kind = rng.integers(5)
    if kind == 0:
        return f"{rng.integers(1990, 2030)}-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}"
    if kind == 1:
        return f"{rng.integers(1, 10000):,}.{rng.integers(100):02}"
    if kind == 2:
        return f"{rng.integers(24):02}:{rng.integers(60):02}"
    if kind == 3:
        return "".join(rng.choice(list(string.ascii_uppercase + string.digits), 6))
    return str(rng.integers(10**6))


def text(rng):
    parts = [number(rng) if rng.random() < 0.2 else str(rng.choice(words())) for _ in range(int(rng.integers(2, 7)))]
    style = rng.integers(4)
    if style == 0:
        parts = [part.upper() for part in parts]
    if style == 1:
        parts = [part.capitalize() for part in parts]
    return " ".join(parts) + str(rng.choice(["", "", ".", ":", "?"]))


def degraded(picture, rng):
    """Blurred, and with noise, by amounts that leave most lines readable."""
    if rng.random() < 0.5:
        picture = picture.filter(ImageFilter.GaussianBlur(float(rng.uniform(0.3, 1.2))))
    pixels = np.asarray(picture, np.float32)
    pixels = pixels + rng.normal(0, float(rng.choice([0, 6, 14, 24])), pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def shades(rng):
    """Of the ground and of the letters: dark on light, or the other way round one time in five."""
    ground, ink = rng.integers(190, 256, 3), rng.integers(0, 90, 3)
    return (ink, ground) if rng.random() < 0.2 else (ground, ink)


def font(rng):
    return ImageFont.truetype(str(fonts()[rng.integers(len(fonts()))]), int(rng.integers(14, 44)))


def line(rng):
    """A picture of one line, cut to it with a small margin, and what it says."""
    said, letters = text(rng), font(rng)
    ground, ink = shades(rng)
    left, top, right, bottom = letters.getbbox(said)
    margin = [int(m) for m in rng.integers(2, 7, 4)]
    picture = Image.new(
        "RGB", (right - left + margin[0] + margin[1], bottom - top + margin[2] + margin[3]), tuple(ground)
    )
    ImageDraw.Draw(picture).text((margin[0] - left, margin[2] - top), said, fill=tuple(ink), font=letters)
    return degraded(picture, rng), said


def page(rng, lines, width=640, height=448):
    """A picture with up to `lines` lines, one below the other, and what they say from top to bottom."""
    ground, ink = shades(rng)
    picture, said, top = Image.new("RGB", (width, height), tuple(ground)), [], 12
    for _ in range(lines):
        words, letters = text(rng), font(rng)
        box = letters.getbbox(words)
        if box[2] - box[0] > width - 24 or top + box[3] - box[1] > height - 12:
            continue
        left = int(rng.integers(12, width - 12 - (box[2] - box[0]) + 1))
        ImageDraw.Draw(picture).text((left - box[0], top - box[1]), words, fill=tuple(ink), font=letters)
        said.append(words)
        top += box[3] - box[1] + int(rng.integers(14, 34))
    return degraded(picture, rng), said
