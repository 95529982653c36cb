// Checks of the concrete shapes of caches in blocks, which every backend's kernels trust (see shape_check.h).
#pragma once

#include "compile/backend.h"
#include "ir/ops/paged.h"
#include "ir/ops/paged_update.h"

namespace camshaft {

/// Of an ops::PagedStore. Throws Error(invalid_argument).
void check_paged_store(const KernelShapes& shapes);
/// Of an ops::PagedUpdate. Throws Error(invalid_argument).
void check_paged_update(const ops::PagedUpdate& op, const KernelShapes& shapes);
/// Of an ops::PagedQuantize. Throws Error(invalid_argument).
void check_paged_quantize(const KernelShapes& shapes);
/// Of an ops::PagedAttention. Throws Error(invalid_argument).
void check_paged_attention(const ops::PagedAttention& op, const KernelShapes& shapes);
/// Whether each head of an ops::PagedAttention has a sink.
bool has_sinks(const KernelShapes& shapes);
/// Whether its operand `i`, in_key_scales or in_value_scales, is there.
bool has_scales(const KernelShapes& shapes, size_t i);

}  // namespace camshaft
