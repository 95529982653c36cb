// The kernels of operators that move elements as CUDA C++ text. They do not depend on the operator: what differs is a
// parameter.
#pragma once

#include <cstdint>
#include <string>

namespace camshaft::cuda {

/// copy_W, tile_W for W of 1 to 16 bytes, gather_W to 8, packed_tile_W to 2 (see device/copy.cuh).
std::string copy_text();
/// concat_W (see device/concat.cuh).
std::string concat_text();

/// pad_any and pad_vector for elements of `width` bytes, 1 to 8, or copy_mapped_any and copy_mapped_vector, or
/// index_map_any and index_map_vector (see device/pad.cuh).
std::string pad_text(int width);
std::string mapped_copy_text(int width);
std::string index_map_text(int width);

enum class GatherKind : uint8_t { rows, elements, slices };
/// gather_rows_W to 16 bytes, gather_elements_W to 8, or gather_slices_W to 16 (see device/gather.cuh).
std::string gather_text(GatherKind kind);

/// clear_all, find_last_slices_any, find_last_elements_any; scatter_slices_W and scatter_elements_W to 16 bytes (see
/// device/scatter.cuh).
std::string scatter_text();

}  // namespace camshaft::cuda
