"""How the catalog keeps the models that it makes."""

import threading
from concurrent.futures import ThreadPoolExecutor

import catalog


class Proto:
    def __init__(self, text):
        self.text = text

    def SerializeToString(self):
        return self.text


def test_threads_that_want_one_model_make_it_once(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "MADE", tmp_path)
    never, made = threading.Event(), []

    def proto():
        made.append(1)
        never.wait(0.3)  # for the others to come
        return Proto(b"model")

    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: catalog.made("m", proto), range(4)))
    assert len(made) == 1 and set(paths) == {tmp_path / "m.onnx"}
    assert paths[0].read_bytes() == b"model" and list(tmp_path.iterdir()) == [paths[0]]


def test_a_model_that_cannot_be_made_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "MADE", tmp_path)
    for proto in (lambda: Proto("no bytes"), lambda: Proto(b"model")):
        try:
            catalog.made("m", proto)
        except TypeError:
            assert not list(tmp_path.iterdir())
    assert (tmp_path / "m.onnx").exists()
