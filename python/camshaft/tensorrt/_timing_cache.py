"""Timing caches: what builds have measured, and what programs look up and change in it."""

import hashlib
import json

from camshaft.tensorrt._values import IHostMemory


class TimingCacheKey:
    """What was measured, a kernel's problem, as 16 bytes."""

    def __init__(self, data=bytes(16)):
        self._data = bytes(data)

    @staticmethod
    def parse(text):
        """Of "0x" and 32 hexadecimal digits. Raises ValueError for others."""
        if len(text) != 34 or text[:2] != "0x":
            raise ValueError(f"a timing cache's key is 0x and 32 hexadecimal digits, not '{text}'")
        return TimingCacheKey(bytes.fromhex(text[2:]))

    def __str__(self):
        return "0x" + self._data.hex()

    def __eq__(self, other):
        return isinstance(other, TimingCacheKey) and self._data == other._data

    def __hash__(self):
        return hash(self._data)

    def __repr__(self):
        return f"<TimingCacheKey {self}>"


class TimingCacheValue:
    """The fastest tactic, as a number, and the milliseconds that it takes."""

    def __init__(self, tacticHash=0, timingMSec=0.0):
        self.tacticHash, self.timingMSec = int(tacticHash), float(timingMSec)

    def __repr__(self):
        return f"<TimingCacheValue {self.tacticHash:#x}: {self.timingMSec} ms>"


class ITimingCache:
    """Times that builds have measured, as `--timing-cache` keeps them."""

    def __init__(self, data=b""):
        """Raises ValueError for bytes that are no timing cache of Camshaft's."""
        self._data = bytes(data)
        if self._data:
            _machines_of(self._data)

    def serialize(self):
        return IHostMemory(self._data)

    def combine(self, input_cache, ignore_mismatch=False):
        """Takes over the times of another cache that this one has not."""
        if not input_cache._data:
            return True
        both = json.loads(input_cache._data)
        machines = both["machines"]
        for machine, problems in (_machines_of(self._data) if self._data else {}).items():
            machines.setdefault(machine, {}).update(problems)
        self._data = json.dumps(both).encode()
        return True

    def reset(self):
        self._data = b""
        return True

    # ---- What is in it ----

    def _entries(self):
        """{key: {tactic: nanoseconds}}, of all machines"""
        machines = _machines_of(self._data) if self._data else {}
        return {
            _key_of(machine, problem): times
            for machine, problems in machines.items()
            for problem, times in problems.items()
            if times
        }

    def queryKeys(self):
        """The key of all that was measured."""
        return list(self._entries())

    def query(self, key):
        """What is fastest there; a value of zeros for a key that is not known."""
        times = self._entries().get(key)
        if times is None:
            return TimingCacheValue()
        tactic = min(times, key=times.get)
        return TimingCacheValue(_number_of(tactic), times[tactic] / 1e6)

    def update(self, key, value):
        """From now on builds take that tactic there. False for a key, or a tactic, that was not measured."""
        held = json.loads(self._data) if self._data else {"machines": {}}
        for machine, problems in held["machines"].items():
            for problem, times in problems.items():
                chosen = next((tactic for tactic in times if _number_of(tactic) == value.tacticHash), None)
                if chosen is None or _key_of(machine, problem) != key:
                    continue
                times[chosen] = max(1, round(value.timingMSec * 1e6))
                for other in times:  # are slower than it
                    if other != chosen:
                        times[other] = max(times[other], times[chosen] + 1)
                self._data = json.dumps(held).encode()
                return True
        return False

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def _key_of(machine, problem):
    return TimingCacheKey(hashlib.sha256(f"{machine}\0{problem}".encode()).digest()[:16])


def _number_of(tactic):
    return int.from_bytes(hashlib.sha256(tactic.encode()).digest()[:8], "little")


def _machines_of(data):
    try:
        return json.loads(data)["machines"]
    except (ValueError, KeyError, TypeError):
        raise ValueError("these bytes are no timing cache of Camshaft's: TensorRT's caches do not serve here") from None
