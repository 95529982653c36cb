"""The socket to the server, and the memory that both processes have."""

import fcntl
import json
import mmap
import os
import socket
import struct
import threading
import weakref

import numpy as np

HEADER = 64  # bytes before a block; the first is 1 while somebody uses it
_LEAST_SEGMENT = 1 << 20


class Channel:
    """Messages of JSON, each behind its length as u32; file descriptors come with the length."""

    def __init__(self, descriptor):
        self._socket = socket.socket(fileno=descriptor)
        self._lock = threading.Lock()

    def send(self, message, descriptors=()):
        data = json.dumps(message).encode()
        length = struct.pack("<I", len(data))
        with self._lock:
            if descriptors:
                socket.send_fds(self._socket, [length], list(descriptors))
                self._socket.sendall(data)
            else:
                self._socket.sendall(length + data)

    def receive(self):
        """A message and its descriptors; None when the server is gone."""
        length, descriptors = b"", []
        while len(length) < 4:
            part, more, _, _ = socket.recv_fds(self._socket, 4 - len(length), 4)
            if not part:
                return None
            length += part
            descriptors += more
        data = bytearray(struct.unpack("<I", length)[0])
        view = memoryview(data)
        while view:
            count = self._socket.recv_into(view)
            if count == 0:
                return None
            view = view[count:]
        return json.loads(data), descriptors


class Arena:
    """Memory that this process gives out and the server reads, in segments that grow in number when they are full."""

    def __init__(self, channel):
        self._channel = channel
        self._lock = threading.Lock()
        self._segments = {}  # number -> (map, [(offset, bytes)] in use, ascending)
        self._next = 0

    def allocate(self, size):
        """(segment, offset, memory of `size` bytes); the server frees it."""
        need = HEADER + (size + 63) // 64 * 64
        with self._lock:
            place = self._find(need)
            if place is None:
                place = self._add(max(_LEAST_SEGMENT, 2 * need))
            self._drop_empty(place[0])
            number, index, offset = place
            memory, blocks = self._segments[number]
            memory[offset] = 1
            blocks.insert(index, (offset, need))
        return number, offset, np.frombuffer(memory, np.uint8, size, offset + HEADER)

    def free(self, number, offset):
        """A block that the server was not told of."""
        with self._lock:
            self._segments[number][0][offset] = 0

    def _find(self, need):
        found = None
        for number, (memory, blocks) in self._segments.items():
            blocks[:] = [block for block in blocks if memory[block[0]]]
            end = 0
            for index, (offset, size) in enumerate(blocks):
                if offset - end >= need:
                    found = found or (number, index, end)
                    break
                end = offset + size
            else:
                if len(memory) - end >= need:
                    found = found or (number, len(blocks), end)
        return found

    def _add(self, size):
        size = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE * mmap.PAGESIZE
        descriptor = os.memfd_create("camshaft-outputs", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(descriptor, size)
            fcntl.fcntl(descriptor, 1033, 2 | 4)  # F_ADD_SEALS: it neither shrinks nor grows
            memory = mmap.mmap(descriptor, size)
            number = self._next
            self._next += 1
            self._channel.send({"op": "segment", "id": number, "size": size}, [descriptor])
        finally:
            os.close(descriptor)
        self._segments[number] = (memory, [])
        return number, 0, 0

    def _drop_empty(self, used):
        """A burst's segments go with it; the largest one stays."""
        empty = [number for number, (_, blocks) in self._segments.items() if not blocks and number != used]
        largest = max(len(memory) for memory, _ in self._segments.values())
        for number in empty:
            if len(self._segments[number][0]) < largest or len(self._segments[used][0]) == largest:
                del self._segments[number]
                self._channel.send({"op": "drop", "id": number})


class Segments:
    """The server's memory. Arrays of it are freed when the last one that has it is gone."""

    def __init__(self):
        self._maps = {}

    def add(self, number, size, descriptor):
        self._maps[number] = mmap.mmap(descriptor, size)
        os.close(descriptor)

    def drop(self, number):
        del self._maps[number]

    def array(self, number, offset, size):
        memory = self._maps[number]
        array = np.frombuffer(memory, np.uint8, size, offset + HEADER)
        weakref.finalize(array, _release, memory, offset).atexit = False
        return array


def _release(memory, offset):
    memory[offset] = 0
