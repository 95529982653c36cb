// Attention: what its kernels share. One pass over the keys with a running maximum and sum for each query (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022).
//
// The generated text defines Element, Result (what is written), head_size, value_size, mask_count, capped, mask_scores(),
// mask_has_pairs with MaskPair, load_mask_pair() and masked_by_pair(), and give().

constexpr int masks_held = mask_count > 0 ? mask_count : 1;
typedef AttentionParameters<masks_held> Attention;

struct MaskPointers {
  const void* data[masks_held];
};

/// Where each mask's row of one query begins.
struct MaskRow {
  i64 at[masks_held];

  __device__ __forceinline__ void locate(const Attention& a, u32 outer, u32 query) {
#pragma unroll
    for (int m = 0; m < mask_count; ++m)
      at[m] = a.mask[m].offset + offset_of(a.mask[m].outer, outer) + offset_of(a.mask[m].queries, query);
  }
};

/// Changes the scores of one key and `rows` queries as the masks have it. `direct`: keys are one axis in all masks.
template <bool direct, int rows>
__device__ __forceinline__ void mask_scores(const Attention& a, const MaskPointers& masks, const MaskRow (&row)[rows],
                                            u32 key, f32 (&score)[rows]);

/// A score from a product.
__device__ __forceinline__ f32 scaled(const Attention& a, f32 product) {
  const f32 score = product * a.scale;
  return !capped ? score : a.softcap * (approximate ? tanh_rounded(score) : tanh(score));
}

/// Writes V elements of the result, to whose size `to` is aligned: rounded to Element, and steps of 8 bits made of that
/// where the kernel has such.
template <int V>
__device__ __forceinline__ void give(Result* to, const f32 (&y)[V]);

/// The factor that makes a row of sums a result, from the sum of its exponentials; 0: the result is 0. Without any
/// score above -infinity the sum is 0, and the result NaN.
__device__ __forceinline__ f32 factor_of(const Attention& a, f32 sum) {
  if (a.keys == 0 || (a.zero_undefined != 0 && !(sum > 0))) return 0;
  return 1 / sum;
}

/// Where a split leaves what it found for a row: value_size sums, the largest score, the sum of exponentials.
__device__ __forceinline__ f32* partial_of(f32* partial, u32 row, u32 split, u32 splits) {
  return partial + (u64(row) * splits + split) * (value_size + 2);
}

__device__ __forceinline__ f32 exponential(f32 x) { return approximate ? exp2_approximate(x * 1.44269504f) : exp(x); }

/// Merges the splits in their order: a warp for each row.
__device__ __forceinline__ void merge_splits(const Attention& a, u32 splits, const f32* partial, Result* result) {
  const u32 lane = threadIdx.x % 32, row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
  if (row >= a.rows) return;
  const f32* first = partial + u64(row) * splits * (value_size + 2);
  f32 largest = -infinity(), sum = 0;
#pragma unroll 4
  for (u32 s = 0; s < splits; ++s) largest = fmaxf(largest, first[u64(s) * (value_size + 2) + value_size]);
  const f32 reference = reference_of(largest);
#pragma unroll 4
  for (u32 s = 0; s < splits; ++s) {
    const f32* figures = first + u64(s) * (value_size + 2) + value_size;
    sum += figures[1] * exponential(figures[0] - reference);
  }
  const f32 factor = factor_of(a, sum);
  const u32 outer = row / a.queries, query = row - outer * a.queries;
  Result* to = result + a.result.offset + offset_of(a.result.outer, outer) + offset_of(a.result.rows, query);
#pragma unroll 1
  for (u32 v = lane; v < value_size; v += 32) {
    f32 all = 0;
#pragma unroll 4
    for (u32 s = 0; s < splits; ++s) {
      const f32* part = first + u64(s) * (value_size + 2);
      all += part[v] * exponential(part[value_size] - reference);
    }
    const f32 y[1] = {factor == 0 ? 0.0f : all * factor};
    give(to + v * a.result.column, y);
  }
}

// Of tiles on tensor cores:
constexpr f32 log2_e = 1.44269504f;
/// Whether scores are exponents of e, and not of 2: where masks may have numbers near the largest.
constexpr bool of_e = mask_count > 0 || capped;
__device__ __forceinline__ f32 power(f32 x) { return exp2_approximate(of_e ? x * log2_e : x); }
