# Everything comes from Debian 12 / Ubuntu 24.04 packages (scripts/setup.sh installs them); static archives where they exist.
find_package(Threads REQUIRED)
find_path(FMT_INCLUDE_DIR fmt/format-inl.h REQUIRED)  # compiled by src/base/fmt_library.cpp
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

find_library(XXHASH_ARCHIVE NAMES libxxhash.a REQUIRED)
add_library(xxhash INTERFACE)
target_link_libraries(xxhash INTERFACE ${XXHASH_ARCHIVE})

# Decoders of pictures, and what PNG is packed with. What keeps the archives of libpng and libjpeg out of a shared library
# is one variable: see cmake/glibc/standard_error.cpp.
find_path(PNG_INCLUDE_DIR png.h REQUIRED)
find_path(JPEG_INCLUDE_DIR jpeglib.h REQUIRED)
find_path(WEBP_INCLUDE_DIR webp/decode.h REQUIRED)
find_library(PNG_ARCHIVE NAMES libpng16.a REQUIRED)
find_library(JPEG_ARCHIVE NAMES libjpeg.a REQUIRED)
find_library(WEBP_ARCHIVE NAMES libwebp.a REQUIRED)
find_library(ZLIB_ARCHIVE NAMES libz.a REQUIRED)
add_library(pictures INTERFACE)
target_link_libraries(pictures INTERFACE ${PNG_ARCHIVE} ${JPEG_ARCHIVE} ${WEBP_ARCHIVE} ${ZLIB_ARCHIVE} m)

# Archives of arrays (.npz).
find_path(MINIZIP_INCLUDE_DIR minizip/unzip.h REQUIRED)
find_library(MINIZIP_ARCHIVE NAMES libminizip.a REQUIRED)
add_library(archives INTERFACE)
target_include_directories(archives SYSTEM INTERFACE ${MINIZIP_INCLUDE_DIR})
target_link_libraries(archives INTERFACE ${MINIZIP_ARCHIVE} ${ZLIB_ARCHIVE})

find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)  # its run-time part is src/backends/cpu/kernels/highway_runtime.cpp

find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp REQUIRED)
add_library(protozero INTERFACE)

find_program(FLATC flatc REQUIRED)
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
add_library(flatbuffers_runtime INTERFACE)
