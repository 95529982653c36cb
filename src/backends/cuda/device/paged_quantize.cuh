// Rows into the slots of a cache of 8 bits, in steps of scales that they get (ops::PagedQuantize): a block takes a row, each
// of its warps a head at a time. The generated text defines Row and Code.

__device__ __forceinline__ void put_step(i8* to, f32 step) { *to = Narrow<i8>::from(rint(step)); }
__device__ __forceinline__ void put_step(f8e4m3* to, f32 step) { *to = Narrow<f8e4m3>::from(step); }

extern "C" __global__ void __launch_bounds__(128)
    quantize_rows(const __grid_constant__ PagedQuantizeParameters p, const Row* rows, const void* slots, Code* cache,
                  f32* scales, Complaint complaint) {
  take_turn();
  const u32 lane = threadIdx.x % 32;
  for (u32 row = blockIdx.x; row < p.count; row += gridDim.x) {
    const i64 slot = taken_slot(p, slots, row, complaint);
    if (slot < 0) continue;
    for (u32 head = threadIdx.x / 32; head < p.heads; head += blockDim.x / 32) {
      const Row* const from = rows + (i64(row) * p.heads + head) * p.size;
      const i64 place = slot * p.heads + head;
      f32 most = p.least;
      for (u32 i = lane; i < p.size; i += 32) most = larger_or_nan(most, fabsf(widen(from[i])));
      most = combine_lanes(most, 32, [](f32 a, f32 b) { return larger_or_nan(a, b); });
      const f32 scale = most / p.highest;
      for (u32 i = lane; i < p.size; i += 32) put_step(cache + place * p.size + i, widen(from[i]) / scale);
      if (lane == 0) scales[place] = scale;
    }
  }
}
