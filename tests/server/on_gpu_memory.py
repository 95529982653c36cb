"""A client whose tensors are in its own memory on a GPU, an emulated one here: on_gpu_memory.py HTTP GRPC

The server runs in another process, with the models of test_cuda_shared_memory.py.
"""

import base64
import sys

import numpy as np
import tritonclient.grpc
import tritonclient.http
import tritonclient.utils.shared_memory as system_memory
from cuda_driver import Driver
from tritonclient.utils import InferenceServerException

ROWS, COLUMNS = 3, 40
SIZE = 4 * ROWS * COLUMNS  # of a tensor


def refused(text, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except InferenceServerException as error:
        assert text in error.message(), error.message()
        return
    raise AssertionError(f"it was not refused: {text}")


class Memory:
    """An allocation, as the server knows it: the handle is in base64, as tritonclient's own utilities give it."""

    def __init__(self, driver, stream, size):
        self.driver, self.stream, self.size = driver, stream, size
        self.address = driver.allocate(size)
        self.handle = base64.b64encode(driver.share(self.address))

    def write(self, offset, array):
        self.driver.write(self.address + offset, array, self.stream)
        self.driver.wait(self.stream)

    def read(self, offset, shape, dtype):
        return self.driver.read(self.address + offset, shape, self.stream, dtype)


def infer(protocol, client, model, inputs, outputs):
    """(name, type, shape, offset) of the inputs, (name, size, offset) of the outputs, all in the region "gpu"."""
    given, wanted = [], []
    for name, datatype, shape, offset in inputs:
        given.append(protocol.InferInput(name, shape, datatype))
        given[-1].set_shared_memory("gpu", 4 * int(np.prod(shape)), offset=offset)
    for name, size, offset in outputs:
        wanted.append(protocol.InferRequestedOutput(name))
        wanted[-1].set_shared_memory("gpu", size, offset=offset)
    return client.infer(model, given, outputs=wanted)


def regions(protocol, client, name=""):
    """(name, GPU, bytes) of each."""
    found = client.get_cuda_shared_memory_status(name)
    if protocol is tritonclient.http:
        return [(one["name"], int(one["device_id"]), int(one["byte_size"])) for one in found]
    return [(one.name, one.device_id, one.byte_size) for one in found.regions.values()]


def check_reals(protocol, client, memory, model):
    """`model` hands through what it gets."""
    array = np.random.default_rng(1).standard_normal((ROWS, COLUMNS), np.float32)
    memory.write(0, array)
    memory.write(2 * SIZE, np.zeros_like(array))
    infer(protocol, client, model, [("INPUT0", "FP32", [ROWS, COLUMNS], 0)], [("OUTPUT0", SIZE, 2 * SIZE)])
    np.testing.assert_array_equal(memory.read(2 * SIZE, (ROWS, COLUMNS), np.float32), array)
    # From the GPU into the response, and from the request to the GPU.
    given = protocol.InferInput("INPUT0", [ROWS, COLUMNS], "FP32")
    given.set_shared_memory("gpu", SIZE)
    np.testing.assert_array_equal(client.infer(model, [given]).as_numpy("OUTPUT0"), array)
    given.set_data_from_numpy(array + 1)
    wanted = protocol.InferRequestedOutput("OUTPUT0")
    wanted.set_shared_memory("gpu", SIZE, offset=SIZE)
    client.infer(model, [given], outputs=[wanted])
    np.testing.assert_array_equal(memory.read(SIZE, (ROWS, COLUMNS), np.float32), array + 1)
    # An address that no element of the type may have is no reason to refuse it.
    memory.write(1, array)
    infer(protocol, client, model, [("INPUT0", "FP32", [ROWS, COLUMNS], 1)], [("OUTPUT0", SIZE, 2 * SIZE + 2)])
    np.testing.assert_array_equal(memory.read(2 * SIZE + 2, (ROWS, COLUMNS), np.float32), array)


def check_integers(protocol, client, memory):
    first, second = np.arange(32, dtype=np.int32).reshape(2, 16), np.full((2, 16), 7, np.int32)
    memory.write(0, first)
    memory.write(256, second)
    inputs = [("INPUT0", "INT32", [2, 16], 0), ("INPUT1", "INT32", [2, 16], 256)]
    infer(protocol, client, "simple", inputs, [("OUTPUT0", 128, 512), ("OUTPUT1", 200, 768)])
    np.testing.assert_array_equal(memory.read(512, (2, 16), np.int32), first + second)
    np.testing.assert_array_equal(memory.read(768, (2, 16), np.int32), first - second)


def check_in_place(protocol, client):
    """Engines refuse outputs over their inputs: the one on the GPU sees that they are, the one on the host has copies."""
    inputs, outputs = [("INPUT0", "FP32", [ROWS, COLUMNS], 0)], [("OUTPUT0", SIZE, SIZE // 2)]
    refused("is bound to memory of input", infer, protocol, client, "on_gpu", inputs, outputs)
    infer(protocol, client, "on_host", inputs, outputs)


def check_refusals(protocol, client, memory):
    register = client.register_cuda_shared_memory
    refused("already in manager", register, "gpu", memory.handle, 0, 16)
    refused("there is no GPU 9", register, "other", memory.handle, 9, 16)
    refused("cudaIpcMemHandle_t", register, "other", base64.b64encode(b"short"), 0, 16)
    refused("raw handle", register, "other", base64.b64encode(bytes(64)), 0, 16)
    refused("it has 0 bytes", register, "other", memory.handle, 0, 0)
    refused("and the allocation on GPU 0 has", register, "other", memory.handle, 0, 1 << 40)
    refused("Unable to find cuda shared memory region", client.get_cuda_shared_memory_status, "other")
    inputs, outputs = [("INPUT0", "FP32", [ROWS, COLUMNS], 0)], [("OUTPUT0", SIZE, memory.size - 4)]
    refused("Invalid offset", infer, protocol, client, "on_gpu", inputs, outputs)
    refused("should be at least", infer, protocol, client, "on_gpu", inputs, [("OUTPUT0", SIZE - 1, SIZE)])
    refused("should be at least", infer, protocol, client, "in_python", inputs, [("OUTPUT0", SIZE - 1, SIZE)])


def check_kinds(client, memory):
    """Both kinds share names, and each is let go of by its own call alone."""
    system = system_memory.create_shared_memory_region("gpu", "/camshaft_test_kinds", 64)
    try:
        refused("already in manager", client.register_system_shared_memory, "gpu", "/camshaft_test_kinds", 64)
        client.register_system_shared_memory("host", "/camshaft_test_kinds", 64)
        refused("already in manager", client.register_cuda_shared_memory, "host", memory.handle, 0, 16)
        client.unregister_cuda_shared_memory("host")
        client.unregister_system_shared_memory("gpu")
        client.unregister_system_shared_memory()
    finally:
        system_memory.destroy_shared_memory_region(system)


def main(http_address, grpc_address):
    with Driver() as driver:
        stream = driver.stream()
        memory = Memory(driver, stream, 4 * SIZE)
        clients = [
            (tritonclient.http, tritonclient.http.InferenceServerClient(http_address)),
            (tritonclient.grpc, tritonclient.grpc.InferenceServerClient(grpc_address)),
        ]
        for protocol, client in clients:
            assert regions(protocol, client) == []
            client.register_cuda_shared_memory("gpu", memory.handle, 0, memory.size)
            assert regions(protocol, client) == regions(protocol, client, "gpu") == [("gpu", 0, memory.size)]
            for model in ("on_gpu", "on_host", "in_python", "steps", "kept"):
                check_reals(protocol, client, memory, model)
            check_integers(protocol, client, memory)
            check_in_place(protocol, client)
            check_refusals(protocol, client, memory)
            check_kinds(client, memory)
            assert regions(protocol, client) == [("gpu", 0, memory.size)]
            client.unregister_cuda_shared_memory("gpu")
            client.unregister_cuda_shared_memory("gpu")
            inputs, outputs = [("INPUT0", "FP32", [ROWS, COLUMNS], 0)], [("OUTPUT0", SIZE, SIZE)]
            refused("Unable to find shared memory region", infer, protocol, client, "on_gpu", inputs, outputs)
        # What a client leaves behind when it ends.
        client.register_cuda_shared_memory("left", memory.handle, 0, memory.size)
    print("all is well")


main(*sys.argv[1:])
