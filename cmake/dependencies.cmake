# Everything comes from Debian 12 / Ubuntu 24.04 packages (scripts/setup.sh installs them); static archives where they exist.
find_package(Threads REQUIRED)
find_path(FMT_INCLUDE_DIR fmt/format-inl.h REQUIRED)  # compiled by src/base/fmt_library.cpp
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

find_library(XXHASH_ARCHIVE NAMES libxxhash.a REQUIRED)
add_library(xxhash INTERFACE)
target_link_libraries(xxhash INTERFACE ${XXHASH_ARCHIVE})

find_path(HWY_INCLUDE_DIR hwy/highway.h REQUIRED)  # its run-time part is src/cpu/kernels/highway_runtime.cpp

find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp REQUIRED)
add_library(protozero INTERFACE)

find_program(FLATC flatc REQUIRED)
find_path(FLATBUFFERS_INCLUDE_DIR flatbuffers/flatbuffers.h REQUIRED)
add_library(flatbuffers_runtime INTERFACE)
