"""PP-OCRv4: lines read by the recogniser, pages found and read by both models."""

import numpy as np
import ocr
import text_lines
from catalog import WHEEL_MODELS
from scipy import ndimage
from task import Part, Task

RECOGNISER = WHEEL_MODELS / "ch_PP-OCRv4_rec_infer.onnx"
DETECTOR = WHEEL_MODELS / "ch_PP-OCRv4_det_infer.onnx"


def edit_distance(a, b):
    row = np.arange(len(b) + 1)
    for i, letter in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, other in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (letter != other))
    return int(row[-1])


def read_rate(pairs):
    """The share of characters that are right, in percent, of (written, read) pairs: without spaces, which the model is
    unsure of whatever the precision."""
    pairs = [(written.replace(" ", ""), read.replace(" ", "")) for written, read in pairs]
    wrong = sum(min(edit_distance(*pair), len(pair[0])) for pair in pairs)
    return 100 * (1 - wrong / sum(len(written) for written, _ in pairs))


def line_input(picture):
    """f32 [1, 3, 48, width], the width a multiple of 32."""
    width = max(32, round(picture.width * ocr.HEIGHT / picture.height))
    return ocr.preprocess([picture], -(-width // 32) * 32)


def line_inputs(count, seed):
    rng = np.random.default_rng(seed)
    return [{"x": line_input(text_lines.line(rng)[0])} for _ in range(count)]


def read_lines(run, count):
    """Pairs of what is written and what is read."""
    rng, classes, pairs = np.random.default_rng(2), ocr.alphabet(RECOGNISER), []
    for _ in range(count):
        picture, said = text_lines.line(rng)
        pairs.append((said, ocr.decode(run({"x": line_input(picture)})[0], classes)[0]))
    return pairs


def page_input(picture):
    pixels = np.asarray(picture, np.float32).transpose(2, 0, 1)[None, ::-1]
    return np.ascontiguousarray((pixels / 255 - 0.5) / 0.5)


def boxes(probabilities, least=0.3, least_mean=0.5, growth=1.6):
    """Upright boxes (left, top, right, bottom) of text, top to bottom, as the detector's authors find them (Liao et al.,
    "Real-time Scene Text Detection with Differentiable Binarization", 2020): areas above `least` whose mean is above
    `least_mean`, grown by their area times `growth` over their perimeter."""
    labels, _ = ndimage.label(probabilities > least, np.ones((3, 3)))
    found = []
    for index, (rows, columns) in enumerate(ndimage.find_objects(labels), 1):
        area = labels[rows, columns] == index
        height, width = area.shape
        if min(height, width) < 3 or probabilities[rows, columns][area].mean() < least_mean:
            continue
        grow = height * width * growth / (2 * (height + width))
        found.append((columns.start - grow, rows.start - grow, columns.stop + grow, rows.stop + grow))
    return sorted(found, key=lambda box: box[1] + box[3])


def overlap(a, b):
    """Intersection over union."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    area = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return width * height / (sum(area) - width * height)


def pages(count, seed):
    """Pages of up to eight lines, until there are `count` lines."""
    rng, lines = np.random.default_rng(seed), 0
    while lines < count:
        picture, said = text_lines.page(rng, 8)
        lines += len(said)
        yield picture, said


def found(run, picture):
    return boxes(run({"x": page_input(picture)})[0][0, 0])


def find_lines(run, count):
    return [found(run, picture) for picture, _ in pages(count, 4)]


def mean_overlap(answer, in_fp32):
    """Of each box of fp32 with the one that covers it best, in percent; boxes that fp32 has not count as uncovered."""
    best = []
    for mine, wanted in zip(answer, in_fp32):
        best += [max((overlap(box, other) for other in mine), default=0.0) for box in wanted]
        best += [0.0] * max(0, len(mine) - len(wanted))
    return 100 * float(np.mean(best))


def read_pages(detect, read, count):
    pairs, classes = [], ocr.alphabet(RECOGNISER)
    for picture, said in pages(count, 4):
        crops = [picture.crop(tuple(map(round, box))) for box in found(detect, picture)]
        texts = [ocr.decode(read({"x": line_input(crop)})[0], classes)[0] for crop in crops]
        pairs.append(("".join(said), "".join(texts)))
    return pairs


READER = Part("recogniser", lambda: RECOGNISER, lambda: line_inputs(128, 1))
FINDER = Part("detector", lambda: DETECTOR, lambda: [{"x": page_input(picture)} for picture, _ in pages(200, 3)])

TASKS = (
    Task(
        "PP-OCRv4 recogniser",
        "characters read right, %",
        (READER,),
        2000,
        read_lines,
        lambda answer, _: read_rate(answer),
        lost=0.5,
    ),
    Task(
        "PP-OCRv4 detector",
        "overlap with the boxes of fp32, %",
        (FINDER,),
        2000,
        find_lines,
        mean_overlap,
        least=95,
    ),
    Task(
        "PP-OCRv4, found and read",
        "characters read right, %",
        (FINDER, READER),
        2000,
        read_pages,
        lambda answer, _: read_rate(answer),
        lost=0.5,
    ),
)
