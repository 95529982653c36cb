// ops::DynamicQuantize as a kernel.
#pragma once

#include <cstdint>

namespace camshaft {
class ThreadPool;
}

namespace camshaft::cpu {

int64_t dynamic_quantize_workspace_bytes(int threads);
/// y, *scale and *zero of `count` numbers, as the reference has them.
void dynamic_quantize(const float* x, int64_t count, uint8_t* y, float* scale, uint8_t* zero, ThreadPool& pool,
                      void* workspace);

}  // namespace camshaft::cpu
