"""MiniLM: how near sentences are to each other."""

import ast
import re
import sysconfig
from functools import cache
from pathlib import Path

import minilm
import numpy as np
from catalog import MODELS
from scipy.stats import spearmanr
from task import Part, Task

PEOPLE = (
    "The teacher",
    "A young nurse",
    "My neighbour",
    "The old captain",
    "Their lawyer",
    "A tired driver",
    "The cook",
)
DEEDS = ("bought", "repaired", "painted", "lost", "is looking for", "gave away", "could not afford", "dreams of")
THINGS = (
    "a red bicycle", "the kitchen table", "two tickets to the opera", "an expensive watch", "a house by the sea",
    "the broken radio", "fresh bread", "a small dog", "shares of a bank", "the train to Vienna",
)  # fmt: skip
TIMES = ("yesterday", "in the winter of 1984", "before the meeting", "without telling anybody", "again", "for a friend")


@cache
def documented():
    """Sentences of Python's own documentation strings, sorted."""
    found = set()
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        tree = ast.parse(file.read_text(errors="replace"))
        for node in ast.walk(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
                if re.fullmatch(r"[A-Z][A-Za-z ,'-]{30,150}\.", text):
                    found.add(text)
    return sorted(found)


def sentences(count, seed):
    """Half of them on everyday matters, which share people, deeds and things, half on programs."""
    rng = np.random.default_rng(seed)
    made = [" ".join(str(rng.choice(part)) for part in (PEOPLE, DEEDS, THINGS, TIMES)) + "." for _ in range(count // 2)]
    return made + [str(text) for text in rng.choice(documented(), count - len(made), replace=False)]


def batches(texts, size=8):
    return [minilm.tokenize(texts[i : i + size]) for i in range(0, len(texts), size)]


def similarities(run, count):
    """Of every two sentences."""
    vectors = np.concatenate([run(batch)[1] for batch in batches(sentences(count, 6))])
    return (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]


TASKS = (
    Task(
        "MiniLM sentences",
        "rank correlation of similarities with fp32",
        (Part("minilm", lambda: MODELS["minilm"].path(), lambda: batches(sentences(128, 5)), transformer=True),),
        400,
        similarities,
        lambda answer, in_fp32: float(spearmanr(answer, in_fp32).statistic),
        least=0.995,
    ),
)
