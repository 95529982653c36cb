"""What the library raises: one family, by the codes of the C interface."""

from __future__ import annotations

import json
from typing import Any

from camshaft import _native


class Error(RuntimeError):
    """What fails in the library. Its message names the thing that failed, where, and what to do about it; `code` says
    what kind of thing went wrong ("invalid argument", …), and `report`, where a build failed after it was judged, is what
    the build found."""

    code = "internal error"
    _report: str | None = None

    @property
    def report(self) -> dict[str, Any] | None:
        return None if self._report is None else json.loads(self._report)


class InvalidArgumentError(Error, ValueError):
    """A wrong name, shape, dtype or option was given."""

    code = "invalid argument"


class InvalidModelError(Error, ValueError):
    """The ONNX file is malformed or contradicts the standard."""

    code = "invalid model"


class UnsupportedError(Error, NotImplementedError):
    """A valid model uses something that Camshaft cannot run."""

    code = "unsupported"


class FileError(Error, OSError):
    """A file could not be read or written."""

    code = "input/output error"


class CorruptEngineError(Error):
    """An engine is damaged, or of another format version."""

    code = "corrupt engine"


class OutOfMemoryError(Error, MemoryError):
    """An allocation failed."""

    code = "out of memory"


class CancelledError(Error):
    """The caller asked to stop."""

    code = "cancelled"


class VerificationError(Error):
    """The engine's results differ from the reference."""

    code = "verification failed"


class InternalError(Error):
    """A defect in Camshaft itself."""

    code = "internal error"


_native.set_error_types({kind.code: kind for kind in Error.__subclasses__()})
