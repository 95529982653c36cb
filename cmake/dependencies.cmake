# Everything comes from Debian 12 / Ubuntu 24.04 packages (scripts/setup.sh installs them); static archives where they exist.
find_package(Threads REQUIRED)
find_path(FMT_INCLUDE_DIR fmt/format-inl.h REQUIRED)  # compiled by src/base/fmt_library.cpp
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

find_library(XXHASH_ARCHIVE NAMES libxxhash.a REQUIRED)
add_library(xxhash INTERFACE)
target_link_libraries(xxhash INTERFACE ${XXHASH_ARCHIVE})

# Decoders of pictures, and what PNG is packed with.
find_path(PNG_INCLUDE_DIR png.h REQUIRED)
find_path(JPEG_INCLUDE_DIR jpeglib.h REQUIRED)
find_path(WEBP_INCLUDE_DIR webp/decode.h REQUIRED)
find_library(PNG_ARCHIVE NAMES libpng16.a REQUIRED)
find_library(JPEG_ARCHIVE NAMES libjpeg.a REQUIRED)
find_library(WEBP_ARCHIVE NAMES libwebp.a REQUIRED)
find_library(ZLIB_ARCHIVE NAMES libz.a REQUIRED)
add_library(pictures INTERFACE)
# Debian's archives hold code for programs alone; the Python module takes the shared libraries.
set(is_module $<IN_LIST:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY$<SEMICOLON>SHARED_LIBRARY>)
target_link_libraries(pictures INTERFACE $<IF:${is_module},png16,${PNG_ARCHIVE}> $<IF:${is_module},jpeg,${JPEG_ARCHIVE}>
                                         $<IF:${is_module},webp,${WEBP_ARCHIVE}> $<IF:${is_module},z,${ZLIB_ARCHIVE}> m)

find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)  # its run-time part is src/backends/cpu/kernels/highway_runtime.cpp

find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp REQUIRED)
add_library(protozero INTERFACE)

find_program(FLATC flatc REQUIRED)
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
add_library(flatbuffers_runtime INTERFACE)
