"""JSON is measured before it is read: strings are no lists."""

import json
import time

import pytest
from camshaft.llm._json_size import check_size


def test_wide_texts_are_refused_and_long_strings_are_not():
    for value in ([[]] * 70_000, [0] * 2_200_000, [{"a": '"['}] * 70_000):
        with pytest.raises(ValueError, match="lists and objects"):
            check_size(json.dumps(value))
    for value in ('[{,\\"' * 2_000_000, ["[\\"] * 100_000, [0] * 2_000_000):
        check_size(json.dumps(value))


@pytest.mark.parametrize("text", ['"' + '\\"' * 4_000_000, '"' * 8_000_000, "[" * 70_000 + '""' * 4_000_000])
def test_no_text_takes_long(text):
    start = time.monotonic()
    try:
        check_size("[" * 60_000 + text + "," * 2_200_000)
    except ValueError:
        pass
    assert time.monotonic() - start < 5
