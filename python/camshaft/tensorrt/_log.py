"""Loggers, recorders of errors, and how errors become what TensorRT's calls return."""

import contextlib
import sys
import time

import camshaft
from camshaft.tensorrt._enums import ErrorCodeTRT, _numbered


class ILogger:
    """Receives messages: derive from it, and write log(severity, message)."""

    Severity = _numbered("Severity", "INTERNAL_ERROR ERROR WARNING INFO VERBOSE")
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = Severity

    def __init__(self):
        pass

    def log(self, severity, msg):
        raise NotImplementedError("a logger needs log(severity, msg)")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


Severity = ILogger.Severity


class Logger(ILogger):
    """Writes what is at least as severe as `min_severity` to stderr."""

    def __init__(self, min_severity=ILogger.WARNING):
        super().__init__()
        self.min_severity = min_severity

    def log(self, severity, msg):
        if severity > self.min_severity:
            return
        now = time.strftime("%m/%d/%Y-%H:%M:%S")
        letter = {Severity.INTERNAL_ERROR: "F", Severity.VERBOSE: "V"}.get(severity, severity.name[0])
        print(f"[{now}] [TRT] [{letter}] {msg}", file=sys.stderr, flush=True)


class IErrorRecorder:
    """Receives errors: derive from it, and write report_error(code, description) and the rest."""

    MAX_DESC_LENGTH = 127

    def __init__(self):
        pass

    def num_errors(self):
        return 0

    def get_error_code(self, arg0):
        raise NotImplementedError("an error recorder needs get_error_code()")

    def get_error_desc(self, arg0):
        raise NotImplementedError("an error recorder needs get_error_desc()")

    def has_overflowed(self):
        return False

    def clear(self):
        pass

    def report_error(self, code, desc):
        raise NotImplementedError("an error recorder needs report_error(code, desc)")


_CODES = {
    camshaft.InvalidArgumentError: ErrorCodeTRT.INVALID_ARGUMENT,
    camshaft.InvalidModelError: ErrorCodeTRT.INVALID_ARGUMENT,
    camshaft.UnsupportedError: ErrorCodeTRT.UNSUPPORTED_STATE,
    camshaft.FileError: ErrorCodeTRT.FAILED_INITIALIZATION,
    camshaft.CorruptEngineError: ErrorCodeTRT.FAILED_INITIALIZATION,
    camshaft.OutOfMemoryError: ErrorCodeTRT.FAILED_ALLOCATION,
    camshaft.CancelledError: ErrorCodeTRT.FAILED_EXECUTION,
    camshaft.VerificationError: ErrorCodeTRT.FAILED_COMPUTATION,
}


class _Theirs(Exception):
    """What a class of the program's raised, on its way through the library to the program."""


@contextlib.contextmanager
def theirs():
    """Around calls of a program's own classes: what they raise is raised to the program, whatever its kind."""
    try:
        yield
    except Exception as error:
        raise _Theirs(error) from error


class Reporter:
    """What has a logger and may have a recorder: the classes whose calls answer with None or False."""

    def __init__(self, logger):
        self._logger = logger
        #: An IErrorRecorder, or None.
        self.error_recorder = None

    def __del__(self):
        """Programs for TensorRT 8 call it. What an object holds is given back when nobody has it any more."""

    def _log(self, severity, message):
        if self._logger is not None:
            self._logger.log(severity, message)

    def _fail(self, message, code=ErrorCodeTRT.INVALID_ARGUMENT):
        """Logs and records an error; gives False."""
        self._log(Severity.ERROR, message)
        if self.error_recorder is not None:
            self.error_recorder.report_error(code, message[: IErrorRecorder.MAX_DESC_LENGTH])
        return False

    @contextlib.contextmanager
    def _reporting(self):
        """Errors of the library within are logged and recorded instead of raised, and so are values that it cannot take."""
        try:
            yield
        except _Theirs as error:
            raise error.args[0] from None
        except camshaft.Error as error:
            codes = (code for kind, code in _CODES.items() if isinstance(error, kind))
            self._fail(str(error), next(codes, ErrorCodeTRT.INTERNAL_ERROR))
        except ValueError as error:
            self._fail(str(error))
