"""docs/operators.md says what this build does: which operators it reads, in which versions, and what runs on kernels."""

import operators


def test_the_page_is_current():
    text = operators.page()
    written = operators.PAGE.read_text()
    differing = [line for line in text.splitlines() if line not in written.splitlines()]
    assert text == written, "run scripts/operators.py; it would write\n" + "\n".join(differing)
