"""Text that grows token by token: complete characters alone, and nothing of a stop string."""

import random
import time

import pytest
from camshaft.llm._detokenizer import Detokenizer


def decode(tokens):
    """Tokens are bytes of UTF-8."""
    return bytes(tokens).decode("utf-8", "replace")


def test_characters_wait_until_they_are_complete():
    text, shown = Detokenizer(decode, []), []
    for byte in "aé€😀b".encode():
        text.add(byte)
        shown.append(text.text)
    assert shown == ["a", "a", "aé", "aé", "aé", "aé€", "aé€", "aé€", "aé€", "aé€😀", "aé€😀b"]
    text.add("é".encode()[0])
    assert text.text == "aé€😀b"
    text.finish()
    assert text.text == "aé€😀b\ufffd"


def test_what_is_in_front_counts():
    """A decoder that drops the first space, as SentencePiece's does."""

    def words(tokens):
        return "".join(" " + "abc"[token] for token in tokens)[1:]

    text = Detokenizer(words, [0, 1])
    for token in (2, 0):
        text.add(token)
    assert text.text == " c a"


@pytest.mark.parametrize("include", [False, True])
def test_stop_strings_are_found_wherever_tokens_end(include):
    draw = random.Random(5)
    for _ in range(300):
        whole = "".join(draw.choice("ab") for _ in range(30))
        stops = ["".join(draw.choice("ab") for _ in range(draw.randint(2, 5))) for _ in range(draw.randint(1, 3))]
        cuts = sorted(draw.sample(range(1, 30), draw.randint(0, 10)))
        parts = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, 30])]
        text = Detokenizer(lambda tokens, parts=parts: "".join(parts[t] for t in tokens), [], stops, include)
        # It ends with the first token that completes one; of those that it completes the one that begins first.
        found, shown = None, [""]
        for token in range(len(parts)):
            found = text.add(token)
            assert text.text.startswith(shown[-1]), "nothing is taken back"
            shown.append(text.text)
            if found is not None:
                break
        read = "".join(parts[: token + 1])
        before = "".join(parts[:token])
        assert not any(stop in before for stop in stops)
        places = [(read.find(stop), -len(stop), stop) for stop in stops if stop in read]
        if places:
            place, _, stop = min(places)
            assert (found, text.text) == (stop, read[: place + (len(stop) if include else 0)])
        else:
            assert found is None
            text.finish()
            assert text.text == whole


def test_stop_strings_count_from_the_shortest_text_on():
    text = Detokenizer(lambda tokens: "".join("abc"[t] for t in tokens), [], ["b"])
    assert [text.add(token, place >= 2) for place, token in enumerate([0, 1, 0, 1])] == [None, None, None, "b"]
    assert text.text == "aba"


@pytest.mark.parametrize("stop", ["a" * 1_000_000, "a" * 500_000 + "b" * 500_000, "ab" * 500_000])
def test_the_length_of_a_stop_string_costs_nothing(stop):
    text = Detokenizer(lambda tokens: "".join("abc"[t] for t in tokens), [], [stop])
    text.add(2)  # what is made once is made
    text.add(0)
    start = time.monotonic()
    for _ in range(1000):
        assert text.add(0) is None
    assert time.monotonic() - start < 1
