"""decode_pictures.py FILES.engine DECODE.engine: what test_portable.py runs on an older system, with the module alone.

The first engine has no inputs, its outputs are files of pictures; the second decodes one. Prints the version of glibc
and a line for each picture, its name, shape and checksum, or the error.
"""

import ctypes
import os
import sys
import zlib

import camshaft

get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
get_pointer.restype = ctypes.POINTER(ctypes.c_void_p)  # to DLPack's tensor, whose first member is its data
get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]

files = camshaft.Engine(sys.argv[1]).create_context(threads=1).run({})
decode = camshaft.Engine(sys.argv[2]).create_context(threads=2)
print(os.confstr("CS_GNU_LIBC_VERSION"))
for name, file in sorted(files.items()):
    try:
        picture = decode.run({"file": file})["picture"]
    except camshaft.Error as error:
        print(name, error)
        continue
    height, width, channels = picture.shape
    capsule = picture.__dlpack__()
    pixels = ctypes.string_at(get_pointer(capsule, b"dltensor")[0], height * width * channels)
    print(name, picture.shape, zlib.crc32(pixels))
