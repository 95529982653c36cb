"""The process of one instance of a Python model: takes requests from the server, and hands them to the model."""

import asyncio
import importlib.util
import inspect
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
import weakref

METRICS_EVERY = 0.2  # seconds
current = None  # the Worker of this process


class OwnMetrics:
    """Tells the server of the model's metrics: of many changes together, as each is a message."""

    def __init__(self, channel):
        self._channel, self._families = channel, weakref.WeakSet()  # what a model drops is gone
        # A queue that may be put to wherever Python collects garbage: metrics that are dropped are changes too.
        self._changed, self._is_told = queue.SimpleQueue(), True
        self._lock, self._thread = threading.Lock(), None

    def add(self, family):
        with self._lock:
            self._families.add(family)
            if self._thread is None:
                self._thread = threading.Thread(target=self._tell, daemon=True)
                self._thread.start()
        self.changed()

    def changed(self):
        if self._is_told:
            self._is_told = False
            self._changed.put(None)

    def _tell(self):
        while True:
            self._changed.get()
            self._is_told = True
            with self._lock:
                families = list(self._families)
            self._channel.send({"op": "metrics", "families": [family.describe() for family in families]})
            time.sleep(METRICS_EVERY)


class Worker:
    def __init__(self, descriptor):
        from camshaft_channel import Arena, Channel, Segments

        self._channel = Channel(descriptor)
        self.metrics = OwnMetrics(self._channel)
        self._arena, self._segments = Arena(self._channel), Segments()
        self._work = queue.SimpleQueue()
        self._calls, self._next, self._calls_lock = {}, 0, threading.Lock()
        self._model, self._decoupled, self.version_folder = None, False, ""

    # What models call.

    def ask(self, message):
        """Sends a question and waits for its answer."""
        answers = queue.SimpleQueue()
        message["call"] = self._add_call(answers.put)
        self._channel.send(message)
        answer = answers.get()
        if answer.get("error"):
            raise self._utils.TritonModelException(answer["error"])
        return answer

    def which_cancelled(self, requests):
        """Those whose clients are gone, of many in one question."""
        numbers = self.ask({"op": "which_cancelled", "requests": [request._number for request in requests]})["value"]
        return [request for request in requests if request._number in set(numbers)]

    def infer(self, request):
        """A queue of what comes of a request of another model."""
        responses = queue.SimpleQueue()
        call = self._add_call(lambda message: responses.put((self._read_response(message), message["final"])))
        correlation = request.correlation_id()
        tensors = [self._write(tensor) for tensor in request.inputs()]
        self._channel.send(
            {
                "op": "infer",
                "call": call,
                "model": request.model_name(),
                "version": "" if request.model_version() in (-1, "") else str(request.model_version()),
                "id": request.request_id(),
                "sequence": correlation,
                "flags": request.flags(),
                "timeout": request.timeout(),
                "priority": request.priority(),
                "parameters": json.loads(request.parameters()),
                "inputs": tensors,
                "outputs": request.requested_output_names(),
            }
        )
        return responses

    def log(self, level, message):
        self._channel.send({"op": "log", "level": level, "text": str(message)})

    def send_failure(self, number, text):
        self._channel.send(dict(self._failure(number, text, True), op="response"))

    def send_response(self, number, response, final):
        self._channel.send(dict(self._response(number, response, final), op="response"))

    # What the server asks for.

    def run(self):
        threading.Thread(target=self._receive, daemon=True).start()
        while True:
            message = self._work.get()
            if message["op"] == "finalize":
                self._finalize()
                return
            getattr(self, "_" + message["op"])(message)

    def _receive(self):
        try:
            while (received := self._channel.receive()) is not None:
                self._dispatch(*received)
        except BaseException:
            traceback.print_exc()
        os._exit(1)  # the server is gone: nobody needs what the model may still be doing

    def _dispatch(self, message, descriptors):
        op = message["op"]
        if op == "segment":
            self._segments.add(message["id"], message["size"], descriptors[0])
        elif op == "drop":
            self._segments.drop(message["id"])
        elif op == "answer":
            with self._calls_lock:
                answer = self._calls[message["call"]]
                if message.get("final", True):
                    del self._calls[message["call"]]
            answer(message)
        else:
            self._work.put(message)

    def _load(self, message):
        self.version_folder = message["version_folder"]
        if os.path.dirname(message["file"]) != os.path.dirname(
            os.path.abspath(__file__)
        ):  # a language model has no code
            for folder in (message["model_folder"], self.version_folder):
                sys.path.insert(0, folder)
        import triton_python_backend_utils as utils

        self._utils = utils
        spec = importlib.util.spec_from_file_location("model", message["file"])
        module = importlib.util.module_from_spec(spec)
        sys.modules["model"] = module
        spec.loader.exec_module(module)
        if not hasattr(module, "TritonPythonModel"):
            raise AttributeError(f"{message['file']} has no class TritonPythonModel")
        return module.TritonPythonModel

    def _initialize(self, message):
        try:
            self._decoupled = message["decoupled"]
            self._model = self._load(message)()
            if not hasattr(self._model, "execute"):
                raise AttributeError("TritonPythonModel has no method execute")
            if hasattr(self._model, "initialize"):
                self._model.initialize(message["args"])
        except BaseException as error:
            self._channel.send({"op": "initialized", "error": describe(error)})
        else:
            self._channel.send({"op": "initialized", "error": None})

    def _auto_complete(self, message):
        try:
            model, config = self._load(message), message["config"]
            if hasattr(model, "auto_complete_config"):
                completed = model.auto_complete_config(self._utils.ModelConfig(config))
                if completed is None:
                    raise TypeError("auto_complete_config must return the ModelConfig that it was given")
                config = completed.as_dict()
        except BaseException as error:
            self._channel.send({"op": "completed", "error": describe(error)})
        else:
            self._channel.send({"op": "completed", "error": None, "config": config})

    def _execute(self, message):
        responses, rescheduled, error = [], [], None
        try:
            requests = [self._read_request(described) for described in message["requests"]]
            numbers = [described["n"] for described in message["requests"]]
            given = self._model.execute(requests)
            if inspect.iscoroutine(given):
                given = asyncio.run(given)
            rescheduled = [n for n, request in zip(numbers, requests) if request._give_back()]
            responses = self._answers(numbers, requests, given)
            del given, requests
        except BaseException as caught:
            rescheduled, error = [], describe(caught)
        message = {"op": "executed", "error": error, "responses": responses, "rescheduled": rescheduled}
        self._channel.send(message)

    def _answers(self, numbers, requests, given):
        """Of each request the response, or why there is none; those with a response sender may follow later."""
        if self._decoupled:
            if given is not None:
                raise TypeError(
                    "a model with the decoupled transaction policy answers through response senders: "
                    "execute must return None"
                )
            given = [None] * len(numbers)
        if given is None or not hasattr(given, "__len__"):
            raise TypeError(f"execute must return a list of responses, it returned a {type(given).__name__}")
        if len(given) != len(numbers):
            raise ValueError(f"Expected the number of InferenceResponse objects to be {len(numbers)}, got {len(given)}")
        answers = []
        for number, request, response in zip(numbers, requests, given):
            if request._rescheduled:
                continue  # its response is the last run's
            if response is not None:
                answers.append(self._response(number, response, True))
            elif request._sender is None:
                answers.append(self._failure(number, "execute gave no response and took no response sender", True))
        return answers

    def _finalize(self):
        try:
            if self._model is not None and hasattr(self._model, "finalize"):
                self._model.finalize()
        except BaseException:
            self.log("error", "finalize of a Python model failed: " + traceback.format_exc())

    # Messages.

    def _add_call(self, answer):
        with self._calls_lock:
            self._next += 1
            self._calls[self._next] = answer
            return self._next

    def _write(self, tensor):
        from camshaft_tensors import write_tensor

        return write_tensor(tensor.name(), tensor.as_numpy(), self._arena)

    def _read(self, described):
        from camshaft_tensors import read_tensor

        return self._utils.Tensor(*read_tensor(described, self._segments))

    def _read_request(self, described):
        request = self._utils.InferenceRequest(
            model_name=described["model"],
            model_version=described["version"],
            requested_output_names=described["outputs"],
            inputs=[self._read(tensor) for tensor in described["inputs"]],
            request_id=described["id"],
            correlation_id=described["sequence"],
            flags=described["flags"],
            timeout=described["timeout"],
            priority=described["priority"],
            parameters=described["parameters"],
        )
        request._number = described["n"]
        return request

    def _failure(self, number, text, final):
        error = [self._utils.TritonError.INTERNAL, text]
        return {"n": number, "final": final, "empty": False, "outputs": [], "error": error}

    def _response(self, number, response, final):
        """What is wrong with one response fails that request, not the others."""
        message = {"n": number, "final": final, "empty": response is None, "outputs": [], "error": None}
        if response is None:
            return message
        if not isinstance(response, self._utils.InferenceResponse):
            text = f"responses must be pb_utils.InferenceResponse, one is a {type(response).__name__}"
            return self._failure(number, text, final)
        try:
            message["parameters"] = json.loads(response.parameters())
            if response.has_error():
                message["error"] = [response.error().code(), response.error().message()]
            else:
                for tensor in response.output_tensors():
                    message["outputs"].append(self._write(tensor))
        except BaseException as error:
            for tensor in message["outputs"]:
                if tensor["at"] is not None:
                    self._arena.free(*tensor["at"][:2])
            return self._failure(number, describe(error), final)
        return message

    def _read_response(self, message):
        if message["empty"]:
            return None
        if message["error"] is not None:
            return self._utils.InferenceResponse(
                error=self._utils.TritonError(message["error"][1], message["error"][0])
            )
        return self._utils.InferenceResponse([self._read(tensor) for tensor in message["outputs"]])


def describe(error):
    """The exception, and where in the model's files it came from: of an error of Camshaft's own, which says what is wrong, the
    lines of that package are left out."""
    own = os.path.dirname(os.path.abspath(__file__))
    package = sys.modules.get("camshaft")
    is_ours = package is not None and isinstance(error, getattr(package, "Error", ()))
    ours = os.path.join(os.path.dirname(package.__file__), "") if is_ours else None
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if os.path.dirname(frame.filename) != own and not (ours and frame.filename.startswith(ours))
    ]
    places = "".join(f"\n  {frame.filename}({frame.lineno}): {frame.name}" for frame in frames)
    return f"{type(error).__name__}: {error}" + (f"\n\nAt:{places}" if places else "")


def main():
    global current
    descriptor = int(sys.argv[1])
    os.closerange(3, descriptor)
    os.closerange(descriptor + 1, 1 << 16)
    os.set_inheritable(descriptor, False)
    # A terminal and systemd send them to all processes of the server, which still wants answers, and ends this one itself;
    # at SIGHUP it looks for changed models.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        import numpy  # noqa: F401
    except ImportError as error:
        text = (
            f"is {sys.executable}, which has no numpy ({error}): install it there, or name another with CAMSHAFT_PYTHON"
        )
        data = json.dumps({"op": "broken", "error": text}).encode()
        os.write(descriptor, len(data).to_bytes(4, "little") + data)
        os._exit(1)
    current = Worker(descriptor)
    current.run()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # those that are closed are none
        stream.flush()
    os._exit(0)  # threads that the model left running do not keep the process


if __name__ == "__main__":
    sys.dont_write_bytecode = True  # a model's folder is looked at for changes
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    sys.modules["camshaft_worker"] = sys.modules["__main__"]
    main()
