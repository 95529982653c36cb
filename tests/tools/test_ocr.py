"""PP-OCRv4 reads text through an engine."""

import camshaft_cli
import numpy as np
import ocr
import ocr_inputs
import pytest
from catalog import MODELS


@pytest.fixture
def recognise(engines):
    engine, classes = engines.get("ppocr_rec"), ocr.alphabet(MODELS["ppocr_rec"].path())

    def read(batch):
        (probabilities,) = camshaft_cli.run(engine, {"x": batch}).values()
        return ocr.decode(probabilities, classes)

    return read


def test_reads_ten_lines_of_any_width(recognise):
    crops = [ocr.find_lines(ocr.render([line]))[0] for line in ocr_inputs.LINES]
    read = [recognise(ocr.preprocess([crop]))[0] for crop in crops]
    camshaft_cli.record("ocr", "lines", [{"written": line, "read": text} for line, text in zip(ocr_inputs.LINES, read)])
    assert read == ocr_inputs.LINES


def test_reads_ten_lines_as_one_batch(recognise):
    assert recognise(ocr_inputs.lines(10)) == ocr_inputs.LINES


def test_classifier_tells_upside_down(engines):
    batch = ocr_inputs.upright_and_turned(6)
    (scores,) = camshaft_cli.run(engines.get("ppocr_cls"), {"x": batch}).values()
    assert scores.argmax(axis=1).tolist() == [0, 1, 0, 1, 0, 1]


def test_detector_finds_the_lines(engines):
    picture = ocr_inputs.pages(1, 320, 640)
    (text,) = camshaft_cli.run(engines.get("ppocr_det"), {"x": picture}).values()
    rows = (text[0, 0] > 0.3).any(axis=1)
    assert np.count_nonzero(np.diff(np.concatenate([[False], rows, [False]]).astype(np.int8)) == 1) == 4
