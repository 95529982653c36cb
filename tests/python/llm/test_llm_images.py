"""Pictures as callers and strangers have them, and what becomes of them before a tower reads them."""

import base64
import io
import os
import random
import resource
import struct
import subprocess
import sys
import zlib

import numpy as np
import PIL.Image
import pytest
from camshaft import FileError, InvalidArgumentError
from camshaft.llm._image_processor import ImageProcessor
from camshaft.llm._images import MOST_PIXELS, as_rgb, read_file, read_image, read_url
from vision_folders import encoded, picture

FORMATS = [("PNG", {}), ("JPEG", {"quality": 95}), ("WEBP", {"lossless": True}), ("GIF", {}), ("BMP", {})]


def allow(height, width):
    pass


def read(data):
    return read_image(data, "it", allow)


def url_of(data, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def png(width, height, lines=b"", bits=8, colour=2):
    """A PNG that says it has that size; lines: what is compressed in it."""

    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")


@pytest.mark.parametrize("form, options", FORMATS)
def test_formats(form, options):
    pixels = picture(30, 20, 1)
    made = read(encoded(pixels, form, **options))
    assert made.mode == "RGB" and made.size == (30, 20)
    lossy = {"JPEG": 25, "GIF": 30}.get(form, 0)
    assert np.abs(np.asarray(made).astype(int) - pixels).mean() <= lossy


def test_what_is_transparent_lies_on_white():
    pixels = np.zeros((4, 4, 4), np.uint8)
    pixels[..., 0] = 200
    pixels[:2, :, 3] = 255
    made = np.asarray(read(encoded(pixels)))
    assert (made[:2] == [200, 0, 0]).all() and (made[2:] == 255).all()
    file = io.BytesIO()
    PIL.Image.fromarray(np.arange(16, dtype=np.uint8).reshape(4, 4)).convert("P").save(file, "PNG", transparency=3)
    assert (np.asarray(read(file.getvalue()))[0, 3] == 255).all()


def test_other_modes_become_rgb():
    for mode in ("1", "L", "LA", "P", "I;16", "CMYK", "RGBA"):
        image = PIL.Image.fromarray(picture(9, 7)).convert("L" if mode == "I;16" else mode)
        form = "JPEG" if mode == "CMYK" else "PNG"
        file = io.BytesIO()
        (PIL.Image.fromarray(np.full((7, 9), 300, np.uint16)) if mode == "I;16" else image).save(file, form)
        assert read(file.getvalue()).mode == "RGB"


@pytest.mark.parametrize("form, options", FORMATS)
def test_files_that_are_cut_off(form, options):
    data = encoded(picture(40, 30, 2), form, **options)
    for length in [*range(0, min(len(data), 200), 3), len(data) // 2]:
        with pytest.raises(InvalidArgumentError, match="it: "):
            read(data[:length])


@pytest.mark.parametrize("form, options", FORMATS)
def test_files_that_are_broken(form, options):
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED", 0)) or random.randrange(1 << 32)
    print(f"CAMSHAFT_TEST_SEED={seed}")
    dice = random.Random(seed)
    good = encoded(picture(24, 18, 3), form, **options)
    for _ in range(300):
        data = bytearray(good)
        for _ in range(dice.randint(1, 8)):
            data[dice.randrange(len(data) if dice.random() < 0.5 else min(len(data), 60))] = dice.randrange(256)
        try:
            made = read(bytes(data))
            assert made.mode == "RGB" and made.width * made.height <= MOST_PIXELS
        except InvalidArgumentError as error:
            assert str(error).startswith("it: ")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 100,
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.4",
        b"%!PS-Adobe-3.0 EPSF-3.0\n",
        b"II*\0",
    ],
)
def test_files_that_are_no_pictures(data):
    with pytest.raises(InvalidArgumentError, match="no picture in PNG, JPEG, WEBP, GIF, BMP"):
        read(data)


@pytest.mark.parametrize("form", ["TIFF", "ICO", "PPM", "TGA", "EPS", "PDF"])
def test_formats_that_are_not_read(form):
    with pytest.raises(InvalidArgumentError, match="no picture in PNG"):
        read(encoded(picture(32, 32), form))


@pytest.mark.parametrize("sides", [(10**5, 10**4), (2**31 - 1, 2**31 - 1), (2**13 + 1, 2**13), (2**26 + 1, 1)])
def test_pictures_that_say_they_are_huge(sides):
    with pytest.raises(InvalidArgumentError, match=f"{MOST_PIXELS} are the most"):
        read(png(*sides))


def test_sizes_are_checked_before_pictures_are_decoded():
    seen = []

    def refuse(height, width):
        seen.append((height, width))
        raise InvalidArgumentError("no room")

    bomb = png(8192, 8192)  # whose pixels are not there
    for use in (
        lambda: read_image(bomb, "it", refuse),
        lambda: read_url(url_of(bomb), "", refuse),
        lambda: as_rgb(PIL.Image.open(io.BytesIO(bomb)), refuse),
        lambda: as_rgb(np.zeros((5, 3), np.uint8), refuse),
    ):
        with pytest.raises(InvalidArgumentError, match="no room"):
            use()
    assert seen == [(8192, 8192)] * 3 + [(5, 3)]


def test_bombs_take_no_more_than_their_pixels():
    """What compresses a thousandfold, in a process of its own: of 2^26 pixels three copies and a base are possible."""
    script = (
        "import resource, sys, zlib; sys.path[:0] = sys.argv[1:]\n"
        "import test_llm_images as t\n"
        "line = b'\\0' + bytes(3 * 8192)\n"
        "data = t.png(8192, 8192, line * 8192)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "assert len(data) < 1 << 19\n"
        "assert t.read(data).size == (8192, 8192)\n"
        "texts = t.png(3, 3, (b'\\0' + bytes(9)) * 3)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    paths = [os.path.dirname(__file__), *sys.path]
    done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 700_000  # kB


def test_urls():
    pixels = picture(12, 10, 4)
    data = encoded(pixels)
    for url in (
        url_of(data),
        url_of(data, "image/jpeg"),  # what it is called does not count
        url_of(data, "image/png;charset=x"),
        url_of(data).replace("data:", "DATA:"),
        url_of(data).replace("+", "%2B"),
    ):
        assert (np.asarray(read_url(url, "", allow)) == pixels).all()


@pytest.mark.parametrize(
    "url, what",
    [
        ("http://localhost/cat.png", "nothing is fetched"),
        ("https://example.org/cat.png", "nothing is fetched"),
        ("ftp://example.org/cat.png", "nothing is fetched"),
        ("cat.png", "nothing is fetched"),
        ("", "nothing is fetched"),
        ("x" * 10**6, "nothing is fetched"),
        ("data:", "data:image/…;base64"),
        ("data:image/png,abc", "data:image/…;base64"),
        ("data:image/png;base64,", "no picture"),
        ("data:image/png;base64,?", "no Base64"),
        ("data:image/png;base64,aGVsbG8", "no Base64"),
        ("data:image/png;base64,aGVsbG8=", "no picture"),
        ("data:image/png;base64,\u00e4", "no Base64"),
        ("file:///etc/passwd", "allowed_local_media_path"),
    ],
)
def test_urls_that_are_wrong(url, what):
    with pytest.raises(InvalidArgumentError, match=what) as error:
        read_url(url, "", allow)
    assert len(str(error.value)) < 300


def test_files_within_a_folder(tmp_path):
    (tmp_path / "in").mkdir()
    data = encoded(picture(12, 10, 5))
    for name in ("in/cat.png", "in/a cat.png", "out.png"):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "in/link.png").symlink_to(tmp_path / "out.png")
    (tmp_path / "in/loop.png").symlink_to(tmp_path / "in/loop.png")
    allowed = str(tmp_path / "in")
    for url in (f"file://{allowed}/cat.png", f"file://localhost{allowed}/a%20cat.png", f"file:{allowed}/../in/cat.png"):
        assert read_url(url, allowed, allow).size == (12, 10)
    for url in (
        f"file://{tmp_path}/out.png",
        f"file://{allowed}/../out.png",
        f"file://{allowed}/%2e%2e/out.png",
        f"file://{allowed}/link.png",
        f"file://elsewhere{allowed}/cat.png",
        f"file://{allowed}-other/cat.png",
        "file:///etc/passwd",
        f"file://{allowed}/a%00b.png",
    ):
        with pytest.raises(InvalidArgumentError, match="file: URL"):
            read_url(url, allowed, allow)
    with pytest.raises((FileError, InvalidArgumentError)):
        read_url(f"file://{allowed}/loop.png", allowed, allow)
    with pytest.raises(FileError, match="no such file"):
        read_url(f"file://{allowed}/none.png", allowed, allow)
    with pytest.raises(FileError, match="no such file"):
        read_file(tmp_path, allow)


PROCESSORS = {
    "clip": ImageProcessor(4, 1, 3, shortest_edge=20, crop=(20, 20), tile=20),
    "clip, whole": ImageProcessor(4, 1, 3, shortest_edge=20, crop=(20, 20), tile=20, keeps_class=True),
    "siglip": ImageProcessor(4, 1, 2, size=(20, 20), tile=20),
    "square": ImageProcessor(4, 1, 3, shortest_edge=20, crop=(20, 20), square=(9, 99, 199), tile=20),
    "next": ImageProcessor(
        4, 1, 3, shortest_edge=20, tile=20, grid_pinpoints=((20, 40), (40, 20), (40, 40), (60, 20), (20, 60))
    ),
    "qwen": ImageProcessor(4, 2, 3, min_pixels=256, max_pixels=4096),
    "windows": ImageProcessor(4, 2, 3, min_pixels=256, max_pixels=4096, window=4),
}


@pytest.mark.parametrize("name", sorted(PROCESSORS))
def test_rows_are_those_of_inputs(name):
    processor = PROCESSORS[name]
    seed = int(os.environ.get("CAMSHAFT_TEST_SEED", 0)) or random.randrange(1 << 32)
    print(f"CAMSHAFT_TEST_SEED={seed}")
    dice = random.Random(seed)
    for _ in range(60):
        width, height = (dice.choice([1, 2, 7, 20, 21, 40, 41, 150, 299]) for _ in range(2))
        if processor.max_pixels and max(width, height) > 200 * min(width, height):
            with pytest.raises(InvalidArgumentError, match="200 times"):
                processor.rows(height, width)
            continue
        made = processor.inputs(as_rgb(picture(width, height), allow))
        assert made.rows == processor.rows(height, width)
        patches, order = made.arrays["patches"], made.arrays.get("order")
        assert patches.dtype == np.uint8 and patches.flags.c_contiguous
        if processor.max_pixels:
            assert len(patches) == 4 * made.rows and made.height * made.width == made.rows
            assert sorted(map(tuple, made.arrays["positions"].tolist())) == [
                (y, x) for y in range(2 * made.height) for x in range(2 * made.width)
            ]
        elif order is None:
            assert made.rows == patches.shape[1] + processor.keeps_class
        else:
            assert made.rows == len(order) and order.max() == patches.shape[0] * patches.shape[1]
        if processor.window:
            starts = made.arrays["window_starts"]
            assert starts[0] == 0 and starts[-1] == len(patches) and (np.diff(starts) > 0).all()
            assert np.diff(starts).max() <= processor.window**2
            positions = made.arrays["positions"] // processor.window
            for first, last in zip(starts, starts[1:]):
                assert (positions[first:last] == positions[first]).all()


def test_pictures_that_would_grow_without_end():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(InvalidArgumentError, match="would become one of"):
        PROCESSORS["clip"].inputs(as_rgb(np.zeros((1, 100_000), np.uint8), allow))
    with pytest.raises(InvalidArgumentError, match="would become one of"):
        PROCESSORS["square"].rows(1, 20_000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2 << 20
