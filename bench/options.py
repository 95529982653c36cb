"""Options that the benches share."""


def numbers(text):
    """Numbers of 1 or more, parted by commas."""
    values = [int(part) for part in text.split(",")]
    if min(values) < 1:
        raise ValueError(text)
    return values
