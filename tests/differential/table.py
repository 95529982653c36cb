"""The table of operators that the generator draws from.

A description is a function of a GraphBuilder and the operator's name that takes values of the graph, or makes new
ones, and appends the node. It raises Rejected when it finds nothing that fits, and never leaves the standard: what it
makes is valid in the graph's operator set.
"""

import collections
import re
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "onnx"
NOT_GENERATED = Path(__file__).with_name("not_generated.txt")
INDIRECT = {("", "Constant"), ("", "If"), ("", "Loop")}  # made by patterns and as constants
OPERATORS = {}  # (domain, name): description
PATTERNS = []  # descriptions of several nodes


def operator(*names, domain=""):
    def register(describe):
        for name in names:
            OPERATORS[domain, name] = describe
        return describe

    return register


def pattern(describe):
    PATTERNS.append(describe)
    return describe


def importable():
    """(domain, name) of every operator that the importer has, from its tables."""
    domains = collections.defaultdict(list)
    for domain, group in re.findall(
        r'add\("([^"]*)", (\w+_converters)\(\)\)', (SOURCES / "converters.cpp").read_text()
    ):
        domains[group].append(domain)
    found = set()
    for source in SOURCES.glob("ops_*.cpp"):
        text = source.read_text()
        tables = dict(re.findall(r"constexpr Converter (\w+)\[\] = \{(.*?)\};", text, re.S))
        for group, table in re.findall(r"std::span<const Converter> (\w+)\(\) \{\s*return (\w+);", text):
            names = re.findall(r'\{"(\w+)",', tables[table])
            found |= {(domain, name) for domain in domains[group] for name in names}
    return found


def not_generated():
    """{(domain, name): reason} of the operators that no description makes."""
    reasons = {}
    for line in NOT_GENERATED.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, reason = line.partition(": ")
            domain, _, operator_name = name.rpartition(".")
            reasons[domain, operator_name] = reason
    return reasons
