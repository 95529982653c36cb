"""What Python models import as pb_utils: the names of Triton's module, over this server."""

import asyncio
import bisect
import json
import math
import re
import threading
import weakref

import camshaft_worker as _worker
import numpy as np
from camshaft_tensors import (
    NUMPY_OF,
    TRITON_STRING_TO_NUMPY,
    decode_texts,
    encode_texts,
    protocol_name,
)

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2
TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2
TRITONSERVER_MEMORY_CPU = 0
TRITONSERVER_MEMORY_GPU = 1


class TritonModelException(Exception):
    """What goes wrong in the server on a model's behalf."""


class TritonError:
    """Why a request fails, as its response has it."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    def __init__(self, message, code=INTERNAL):
        self._message, self._code = str(message), code

    def message(self):
        return self._message

    def code(self):
        return self._code

    def __str__(self):
        return self._message


class PreferredMemory:
    """Where outputs of other models are wanted; here always in the host's memory."""

    DEFAULT, CPU, GPU = 0, 0, 1

    def __init__(self, preferred_memory_type=DEFAULT, preferred_device_id=0):
        self.preferred_memory_type, self.preferred_device_id = preferred_memory_type, preferred_device_id


class _Capsule:
    """numpy takes objects that make capsules, not capsules."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0


class Tensor:
    """A name and an array of numpy's."""

    def __init__(self, name, array):
        if not isinstance(array, np.ndarray):
            raise TypeError(f"tensor '{name}' must be an array of numpy's, it is a {type(array).__name__}")
        self._type = protocol_name(array.dtype)
        self._name, self._array = name, array

    def name(self):
        return self._name

    def as_numpy(self):
        return self._array

    def shape(self):
        return list(self._array.shape)

    def triton_dtype(self):
        return self._type

    def is_cpu(self):
        return True

    def to_dlpack(self):
        return self._array.__dlpack__()

    @staticmethod
    def from_dlpack(name, tensor):
        """Of any object with __dlpack__, or a capsule, in the host's memory."""
        if not hasattr(tensor, "__dlpack__"):
            tensor = _Capsule(tensor)
        elif tensor.__dlpack_device__()[0] != 1:
            raise TritonModelException(f"tensor '{name}' does not lie in the host's memory: copy it there first")
        return Tensor(name, np.from_dlpack(tensor))

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return 1, 0


class InferenceResponse:
    def __init__(self, output_tensors=(), error=None, parameters=None):
        for tensor in output_tensors or ():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"output tensors must be pb_utils.Tensor, one is a {type(tensor).__name__}")
        self._tensors, self._parameters = list(output_tensors or ()), parameters
        self._error = TritonError(error) if isinstance(error, str) else error
        if parameters is not None and not isinstance(parameters, dict):
            raise TypeError("parameters of a response must be a dict")

    def output_tensors(self):
        return self._tensors

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self):
        return json.dumps(self._parameters or {})


class InferenceResponseSender:
    """Sends responses of one request, as many as a decoupled model likes; the last one, or none, with the final flag."""

    def __init__(self, number):
        self._number, self._closed = number, False

    def send(self, response=None, flags=0):
        final = bool(flags & TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if self._closed:
            raise TritonModelException("Unable to send response. Response sender has been closed.")
        if response is None and not final:
            raise TritonModelException(
                "Inference Response object must be provided when the response flags is set to zero."
            )
        if flags not in (0, TRITONSERVER_RESPONSE_COMPLETE_FINAL):
            raise TritonModelException(f"Unable to send response. Unsupported flag provided: {flags}")
        self._closed = final
        _worker.current.send_response(self._number, response, final)

    def is_cancelled(self):
        return _is_cancelled(self._number)

    def __del__(self):
        if not self._closed:
            _worker.current.send_failure(self._number, "the model let go of the request without its final response")


def _is_cancelled(number):
    return _worker.current.ask({"op": "is_cancelled", "request": number})["value"]


class InferenceRequest:
    """A request that this model got, or one that it makes of another model (exec)."""

    def __init__(
        self,
        model_name="",
        requested_output_names=(),
        inputs=(),
        request_id="",
        correlation_id=0,
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters=None,
        priority=0,
    ):
        self._model, self._version, self._id = model_name, model_version, request_id
        self._outputs, self._inputs, self._correlation = list(requested_output_names), list(inputs), correlation_id
        self._flags, self._timeout, self._priority = flags, timeout, priority
        self._parameters = parameters if isinstance(parameters, str) else json.dumps(parameters or {})
        self._sender = self._number = None
        self._preferred, self._trace, self._rescheduled = preferred_memory, trace, False

    def inputs(self):
        return self._inputs

    def request_id(self):
        return self._id

    def correlation_id(self):
        return self._correlation

    def model_name(self):
        return self._model

    def model_version(self):
        return self._version

    def requested_output_names(self):
        return self._outputs

    def flags(self):
        return self._flags

    def set_flags(self, flags):
        self._flags = flags

    def timeout(self):
        return self._timeout

    def priority(self):
        return self._priority

    def parameters(self):
        """As JSON."""
        return self._parameters

    def preferred_memory(self):
        return self._preferred

    def trace(self):
        return self._trace

    def is_cancelled(self):
        return self._number is not None and _is_cancelled(self._number)

    def get_response_sender(self):
        if self._number is None:
            raise TritonModelException("only requests that a model got have a response sender")
        if self._sender is None:
            self._sender = InferenceResponseSender(self._number)
        return self._sender

    def set_release_flags(self, flags):
        """With RESCHEDULE the request runs once more when execute has returned, with others that wait then."""
        if flags not in (TRITONSERVER_REQUEST_RELEASE_ALL, TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException(f"Invalid release flags: {flags}")
        self._rescheduled = flags == TRITONSERVER_REQUEST_RELEASE_RESCHEDULE

    def _give_back(self):
        """Whether it is rescheduled; its response sender then has nothing more to send."""
        if self._rescheduled and self._sender is not None:
            self._sender._closed = True
        return self._rescheduled

    def exec(self, decoupled=False):
        """Its response from the model it names; of a decoupled one an iterator over them."""
        responses = self._start()
        if decoupled:
            return _iterate(responses)
        return next(_iterate(responses), InferenceResponse(error="the model gave no response"))

    async def async_exec(self, decoupled=False):
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, lambda: self.exec(decoupled=decoupled))

    def _start(self):
        if not self._model:
            raise TritonModelException("an InferenceRequest that is run needs a model_name")
        return _worker.current.infer(self)


def _iterate(responses):
    while True:
        response, final = responses.get()
        if response is not None:
            yield response
        if final:
            return


class ModelConfig:
    """What auto_complete_config changes."""

    def __init__(self, config):
        self._config = config

    def as_dict(self):
        return self._config

    def set_max_batch_size(self, size):
        self._config["max_batch_size"] = size

    def set_dynamic_batching(self):
        self._config.setdefault("dynamic_batching", {})

    def set_model_transaction_policy(self, policy):
        unknown = set(policy) - {"decoupled"}
        if unknown:
            raise ValueError(f"a transaction policy has the field 'decoupled' alone, not {sorted(unknown)}")
        self._config["model_transaction_policy"] = {"decoupled": bool(policy.get("decoupled", False))}

    def add_input(self, tensor):
        self._add("input", tensor, {"name", "data_type", "dims", "optional"})

    def add_output(self, tensor):
        self._add("output", tensor, {"name", "data_type", "dims"})

    def _add(self, field, tensor, known):
        unknown = set(tensor) - known
        if unknown:
            raise ValueError(f"an {field} has the fields {sorted(known)}, not {sorted(unknown)}")
        for name in ("name", "data_type", "dims"):
            if name not in tensor:
                raise ValueError(f"an {field} needs the field '{name}'")
        tensors = self._config.setdefault(field, [])
        for there in tensors:
            if there["name"] == tensor["name"]:
                for name in ("data_type", "dims"):
                    if there.get(name) not in (None, [], "TYPE_INVALID", tensor[name]):
                        raise ValueError(
                            f"{field} '{tensor['name']}' has {name} {there[name]} in config.pbtxt, "
                            f"and {tensor[name]} in auto_complete_config"
                        )
                there.update(tensor)
                return
        tensors.append(dict(tensor))


class Logger:
    """Lines of the server's log."""

    ERROR, WARNING, INFO, VERBOSE = "error", "warning", "info", "verbose"

    @classmethod
    def log(cls, message, level=INFO):
        _worker.current.log(level, message)

    @classmethod
    def log_error(cls, message):
        cls.log(message, cls.ERROR)

    @classmethod
    def log_warn(cls, message):
        cls.log(message, cls.WARNING)

    @classmethod
    def log_info(cls, message):
        cls.log(message, cls.INFO)

    @classmethod
    def log_verbose(cls, message):
        cls.log(message, cls.VERBOSE)


LogLevel = Logger


class MetricFamily:
    """Metrics of the model's own with one name; they go with its process."""

    COUNTER, GAUGE, HISTOGRAM = range(3)

    def __init__(self, name, description, kind):
        if not isinstance(kind, int) or kind not in (self.COUNTER, self.GAUGE, self.HISTOGRAM):
            raise TritonModelException(f"MetricFamily '{name}': kind is COUNTER, GAUGE or HISTOGRAM, not {kind!r}")
        self._name, self._description, self._kind = str(name), str(description), int(kind)
        if not re.fullmatch("[a-zA-Z_:][a-zA-Z0-9_:]*", self._name) or self._name.startswith("nv_"):
            raise TritonModelException(
                f"MetricFamily '{name}': a name has letters, digits, '_' and ':', no digit in front, and does not "
                "begin with nv_, as the server's do"
            )
        self._metrics, self._lock = weakref.WeakSet(), threading.Lock()
        _worker.current.metrics.add(self)

    def Metric(self, labels=None, buckets=None):
        metric = Metric(self._kind, labels or {}, buckets)
        metric._family = self  # which is there as long as one of its metrics
        with self._lock:
            self._metrics.add(metric)
        weakref.finalize(metric, _worker.current.metrics.changed).atexit = False
        return metric

    def describe(self):
        kind = ("counter", "gauge", "histogram")[self._kind]
        with self._lock:
            metrics = list(self._metrics)
        metrics = [metric._describe() for metric in metrics]
        return {"name": self._name, "description": self._description, "kind": kind, "metrics": metrics}


class Metric:
    """One of a family, by its labels. Safe from several threads."""

    def __init__(self, kind, labels, buckets):
        if (kind == MetricFamily.HISTOGRAM) != (buckets is not None):
            raise TritonModelException("buckets are what histograms have, and nothing else")
        self._kind, self._labels = kind, {str(name): str(value) for name, value in labels.items()}
        self._bounds = [float(bound) for bound in buckets or ()]
        for name in self._labels:
            if not re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", name):
                raise TritonModelException(
                    f"a label's name has letters, digits and '_', and no digit in front; '{name}' has others"
                )
        if self._bounds != sorted(set(self._bounds)) or not all(map(math.isfinite, self._bounds)):
            raise TritonModelException("buckets of a histogram must be ascending")
        self._value, self._counts = 0.0, [0] * (len(self._bounds) + 1)
        self._lock = threading.Lock()

    def increment(self, value):
        value = float(value)
        if self._kind == MetricFamily.HISTOGRAM or (not value >= 0 and self._kind == MetricFamily.COUNTER):
            raise TritonModelException("gauges are incremented, and counters by what is not negative")
        with self._lock:
            self._value += value
        _worker.current.metrics.changed()

    def set(self, value):
        if self._kind != MetricFamily.GAUGE:
            raise TritonModelException("only gauges are set")
        value = float(value)
        with self._lock:
            self._value = value
        _worker.current.metrics.changed()

    def observe(self, value):
        if self._kind != MetricFamily.HISTOGRAM:
            raise TritonModelException("only histograms observe values")
        value = float(value)
        # What is no number is in the last bucket alone, as it is below no bound.
        place = len(self._bounds) if math.isnan(value) else bisect.bisect_left(self._bounds, value)
        with self._lock:
            self._value += value
            self._counts[place] += 1
        _worker.current.metrics.changed()

    def value(self):
        if self._kind == MetricFamily.HISTOGRAM:
            raise TritonModelException("a histogram has no value")
        return self._value

    def _describe(self):
        with self._lock:
            if self._kind != MetricFamily.HISTOGRAM:
                return {"labels": self._labels, "value": _as_json(self._value)}
            counts, total = list(self._counts), _as_json(self._value)
            return {"labels": self._labels, "bounds": self._bounds, "counts": counts, "sum": total}


def _as_json(value):
    """JSON has no numbers that are not finite: these are texts."""
    return value if math.isfinite(value) else str(value)


def get_input_tensor_by_name(request, name):
    return next((tensor for tensor in request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(response, name):
    return next((tensor for tensor in response.output_tensors() if tensor.name() == name), None)


def _config_by_name(config, field, name):
    config = json.loads(config) if isinstance(config, str) else config
    return next((tensor for tensor in config.get(field, []) if tensor["name"] == name), None)


def get_input_config_by_name(model_config, name):
    return _config_by_name(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    return _config_by_name(model_config, "output", name)


def using_decoupled_model_transaction_policy(model_config):
    return bool(model_config.get("model_transaction_policy", {}).get("decoupled", False))


def triton_string_to_numpy(name):
    return TRITON_STRING_TO_NUMPY[name]


def triton_to_numpy_type(name):
    return NUMPY_OF[name]


def numpy_to_triton_type(dtype):
    return protocol_name(dtype)


def serialize_byte_tensor(array):
    return np.frombuffer(encode_texts(array), np.uint8) if array.size else np.empty(0, np.object_)


def deserialize_bytes_tensor(data):
    texts = decode_texts(data)
    array = np.empty(len(texts), np.object_)
    array[:] = texts
    return array


def get_model_dir():
    """The folder of the version that runs."""
    return _worker.current.version_folder


def load_model(model_name, config="", files=None):
    import base64

    texts = {name.removeprefix("file:"): base64.b64encode(data).decode() for name, data in (files or {}).items()}
    _worker.current.ask({"op": "load", "name": model_name, "config": config, "files": texts})


def unload_model(model_name, unload_dependents=False):
    _worker.current.ask({"op": "unload", "name": model_name, "dependents": unload_dependents})


def is_model_ready(model_name, model_version=""):
    return _worker.current.ask({"op": "is_ready", "name": model_name, "version": str(model_version)})["value"]
