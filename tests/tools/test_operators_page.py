"""docs/operators.md says what this build does: which operators it reads, in which versions, and what runs on kernels."""

import operators_page


def test_the_page_is_current():
    text = operators_page.page()
    written = operators_page.PAGE.read_text()
    differing = [line for line in text.splitlines() if line not in written.splitlines()]
    assert text == written, "run scripts/operators_page.py; it would write\n" + "\n".join(differing)
