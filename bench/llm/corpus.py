"""English text that every Debian has: manual pages, licences, and what packages say of themselves."""

import gzip
import hashlib
import re
from pathlib import Path

MANUALS = Path("/usr/share/man")
FOLDERS = (Path("/usr/share/doc"), Path("/usr/share/common-licenses"), Path("/usr/share/perl"))
NAMES = re.compile(r"^(copyright|README.*|NEWS.*|FAQ.*|TODO.*|.*\.(txt|pod|md|rst))(\.gz)?$")
#: Of a paragraph: shorter ones are headings and lists, longer ones tables.
SHORTEST, LONGEST = 80, 20_000
HELD_OUT = 24  # one document of so many


def documents(most_bytes):
    """Texts of training, and those that are held out: documents whole, and no paragraph in two of them."""
    seen, parts, total = set(), ([], []), 0
    for path in _paths():
        text = _text(path)
        paragraphs = []
        for paragraph in re.split(r"\n\s*\n", text):
            paragraph = paragraph.strip("\n")
            known = hashlib.sha1(re.sub(r"\W+", " ", paragraph.lower()).encode()).digest()
            if SHORTEST <= len(paragraph) <= LONGEST and known not in seen and _is_english(paragraph):
                seen.add(known)
                paragraphs.append(paragraph)
        if paragraphs:
            document = "\n\n".join(paragraphs)
            is_held_out = int(hashlib.sha1(str(path).encode()).hexdigest(), 16) % HELD_OUT == 0
            parts[is_held_out].append(document)
            total += len(document)
            if total > most_bytes:
                break
    return parts


def _paths():
    found = [p for number in range(1, 9) for p in (MANUALS / f"man{number}").glob("*.gz") if not p.is_symlink()]
    for folder in FOLDERS:
        found += [p for p in folder.rglob("*") if NAMES.match(p.name) or folder.name == "common-licenses"]
    found = [p for p in found if p.is_file() and not p.is_symlink()]
    # In an order that has nothing to do with their names: a part of them is of all kinds.
    return sorted(found, key=lambda p: hashlib.sha1(f"order {p}".encode()).digest())


def _text(path):
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        text = data[: 1 << 20].decode("utf-8", "ignore")
    except (OSError, EOFError, gzip.BadGzipFile):
        return ""
    return _plain(text) if MANUALS in path.parents else text


def _plain(roff):
    """What a manual page says, without its commands."""
    lines = []
    for line in roff.splitlines():
        if line.startswith((".SH", ".SS", ".PP", ".TP", ".P", ".IP", ".LP", ".Sh", ".Pp", ".It")):
            lines.append("")
        if line.startswith(("'", '."', '.\\"', '\\"')):
            continue
        if line.startswith("."):
            command, _, rest = line.partition(" ")
            if command not in (".SH", ".SS", ".B", ".I", ".BR", ".IR", ".BI", ".IB", ".RB", ".RI", ".Sh", ".Nm", ".Nd"):
                continue
            line = rest.replace('"', "")
        line = re.sub(r"\\f(\[\w*\]|\(..|.)|\\[&%/,|^:]|\\s[-+]?\d", "", line)
        line = line.replace("\\-", "-").replace("\\(aq", "'").replace("\\(bu", "*").replace("\\e", "\\")
        lines.append(re.sub(r"\\\((..)|\\\[.*?\]|\\\*\(?..|\\(.)", r"\2", line))
    return "\n".join(lines)


def _is_english(paragraph):
    letters = sum(c.isascii() and (c.isalpha() or c == " ") for c in paragraph)
    return letters >= 0.75 * len(paragraph) and " the " in f" {paragraph.lower()} "
