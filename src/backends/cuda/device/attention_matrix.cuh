// Attention of 16-bit floats on tensor cores. A block takes 16 · warps_q queries of one outer index and goes over tiles of
// keys, each cut among warps_k warps, whose sums meet at the end. The generated text defines pack() for the type.

/// Rows [first, first + rows) into shared memory, `padded` elements each, zeros beyond the data.
template <class Layout, int rows, int size, int padded, int threads>
__device__ __forceinline__ void copy_rows(Element* tile, const Element* data, const AttentionAccess& access, u32 first,
                                          u32 count, bool aligned) {
  constexpr int chunks = padded / 8;
  if (aligned && access.rows.rank <= 1 && threads % chunks == 0 && rows % (threads / chunks) == 0) {
    // Each turn takes as many rows further on.
    constexpr int step = threads >= chunks ? threads / chunks : 1;
    const int r = threadIdx.x / chunks, c = threadIdx.x % chunks * 8;
    const Element* from = data + i64(first + r) * access.rows.stride[0] + c;
    Element* to = tile + Layout::template at<rows, padded>(r, c);
#pragma unroll
    for (int i = 0; i < rows; i += step) {
      const bool inside = first + r + i < count && c < size;
      copy_async_16_or_zero(shared_address(to), inside ? from : data, inside);
      from += step * access.rows.stride[0];
      to += step * Layout::template pitch<padded>;
    }
    return;
  }
  if (aligned) {
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * chunks; i += threads) {
      const int r = i / chunks, c = i % chunks * 8;
      const bool inside = first + r < count && c < size;
      const Element* from = inside ? data + offset_of(access.rows, first + r) + c : data;
      copy_async_16(tile + Layout::template at<rows, padded>(r, c), from, inside ? 16 : 0);
    }
    return;
  }
  // Neighbouring threads read what lies beside each other: a row, or else elements of neighbouring rows.
  const bool along = access.column == 1;
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * padded; i += threads) {
    const int r = along ? i / padded : i % rows, c = along ? i % padded : i / rows;
    Element x = {};
    if (first + r < count && c < size) x = data[offset_of(access.rows, first + r) + c * access.column];
    tile[Layout::template at<rows, padded>(r, c)] = x;
  }
}

/// Scales a lane's products of a tile, and changes them as the masks have it.
template <bool direct, int score_count>
__device__ __forceinline__ void mask_tile(const Attention& a, const MaskPointers& masks, const MaskRow (&rows)[2],
                                          u32 first_key, f32 (&scores)[score_count][4]) {
#pragma unroll
  for (int n = 0; n < score_count; ++n)
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const u32 k = first_key + n * 8 + i;
      f32 pair[2] = {scaled(a, scores[n][i]), scaled(a, scores[n][i + 2])};
      if (k < a.keys) mask_scores<direct>(a, masks, rows, k, pair);
#pragma unroll
      for (int r = 0; r < 2; ++r) scores[n][i + 2 * r] = pair[r];
    }
}

template <template <int, int, int> class PRODUCTS, int warps_q, int warps_k, int warp_keys>
__device__ __forceinline__ void attend(const Attention& a, const Element* query, const Element* key,
                                       const Element* value, const MaskPointers& masks, Result* result, f32* partial) {
  constexpr int tile_queries = 16 * warps_q, tile_keys = warp_keys * warps_k, threads = 32 * warps_q * warps_k;
  typedef PRODUCTS<warps_q, warps_k, warp_keys> Products;
  typedef typename Products::Layout Layout;
  constexpr int key_elements = Layout::template elements<tile_keys, head_padded>;
  constexpr int value_elements = Layout::template elements<tile_keys, value_padded>;
  DYNAMIC_SHARED(shared);
  Element* const queries = reinterpret_cast<Element*>(shared);
  Element* const keys = queries + Layout::template elements<tile_queries, head_padded>;
  // One tile alone needs no second stage, and blocks that take less memory are more (Swin's windows are 49 keys).
  Element* const values = keys + (a.tiles_per_split > 1 ? 2 : 1) * key_elements;
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_q = warp / warps_k, warp_k = warp % warps_k;
  const u32 outer = divide(blockIdx.x, a.tiles), first_query = (blockIdx.x - outer * a.tiles.value) * tile_queries;

  const u32 tiles = (a.keys + tile_keys - 1) / tile_keys, begin = blockIdx.y * a.tiles_per_split;
  const u32 end = begin + a.tiles_per_split < tiles ? begin + a.tiles_per_split : tiles;
  key += a.key.offset + offset_of(a.key.outer, outer);
  value += a.value.offset + offset_of(a.value.outer, outer);
  copy_rows<Layout, tile_queries, head_size, head_padded, threads>(
      queries, query + a.query.offset + offset_of(a.query.outer, outer), a.query, first_query, a.queries,
      (a.aligned & 1) != 0);

  MaskRow mask_rows[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const u32 q = first_query + warp_q * 16 + lane / 4 + 8 * r;
    mask_rows[r].locate(a, outer, q < a.queries ? q : a.queries - 1);
  }
  f32 sums[value_padded / 8][4] = {};
  f32 largest[2] = {-infinity(), -infinity()}, total[2] = {0, 0};
  Products products;

  // The tile that is on its way, and the one before it. (What there is of code is fetched at the first go: once each.)
#pragma unroll 1
  for (u32 coming = begin; coming <= end; ++coming) {
    if (coming < end) {
      const u32 stage = (coming - begin) % 2;
      copy_rows<Layout, tile_keys, head_size, head_padded, threads>(keys + stage * key_elements, key, a.key,
                                                                    coming * tile_keys, a.keys, (a.aligned & 2) != 0);
      copy_rows<Layout, tile_keys, value_size, value_padded, threads>(
          values + stage * value_elements, value, a.value, coming * tile_keys, a.keys, (a.aligned & 4) != 0);
    }
    copy_async_commit();
    if (coming == begin) continue;
    const u32 tile = coming - 1, first_key = tile * tile_keys + warp_k * warp_keys + lane % 4 * 2;
    const u32 shown = (tile - begin) % 2;  // its stage: of a split of one tile the first, whichever tile that is
    // Asked for before the keys are waited for.
    MaskPair pairs[2][warp_keys / 8];
    const bool in_pairs = mask_has_pairs && (a.aligned & 16) != 0;
    if (in_pairs) {
#pragma unroll
      for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
        for (int r = 0; r < 2; ++r)
          if (first_key + n * 8 < a.keys)
            pairs[r][n] = load_mask_pair(masks.data[0], mask_rows[r].at[0] + first_key + n * 8);
    }
    copy_async_wait<1>();
    Products::show();
    __syncthreads();
    products.take_queries(queries, tile == begin);
    f32 scores[warp_keys / 8][4];
    products.multiply_keys(scores, keys + shown * key_elements);

    if (in_pairs) {
#pragma unroll
      for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          scores[n][e] = masked_by_pair(a, scaled(a, scores[n][e]), pairs[e / 2][n], e % 2);
    } else if constexpr (mask_count > 0) {
      if ((a.aligned & 32) != 0) {
        mask_tile<true>(a, masks, mask_rows, first_key, scores);
      } else {
        mask_tile<false>(a, masks, mask_rows, first_key, scores);
      }
    } else if constexpr (capped) {
#pragma unroll
      for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[n][e] = scaled(a, scores[n][e]);
    } else {
      const f32 factor = a.scale * log2_e;
#pragma unroll
      for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) scores[n][e] *= factor;
    }
    if ((tile + 1) * tile_keys > a.keys) {
#pragma unroll
      for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          if (first_key + n * 8 + e % 2 >= a.keys) scores[n][e] = -infinity();
    }
    add_scores(products, scores, values + shown * value_elements, largest, total, sums);
    __syncthreads();  // before the tile after the next one takes this one's place
  }

  // The warps' sums meet in shared memory, from which rows are written as a whole.
  constexpr int pitch = value_padded + 4;
  copy_async_wait<0>();
  __syncthreads();
  f32* const all = reinterpret_cast<f32*>(shared);             // [warps_k][tile_queries][pitch]
  f32* const figures = all + warps_k * tile_queries * pitch;  // [tile_queries][warps_k + 2]
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    total[r] = combine_lanes(total[r], 4, [](f32 x, f32 y) { return x + y; });
    f32* const row = all + (warp_k * tile_queries + warp_q * 16 + lane / 4 + 8 * r) * pitch;
#pragma unroll
    for (int v = 0; v < value_padded / 8; ++v)
      *reinterpret_cast<float2*>(row + v * 8 + lane % 4 * 2) = make_float2(sums[v][2 * r], sums[v][2 * r + 1]);
    if (lane % 4 == 0) {
      row[value_padded] = of_e ? largest[r] : largest[r] * 0.693147181f;
      row[value_padded + 1] = total[r];
    }
  }
  __syncthreads();
  if (threadIdx.x < tile_queries) {
    const f32* const row = all + threadIdx.x * pitch + value_padded;
    f32 top = -infinity(), sum = 0;
    for (int w = 0; w < warps_k; ++w) top = fmaxf(top, row[w * tile_queries * pitch]);
    const f32 reference = reference_of(top);
    f32* const mine = figures + threadIdx.x * (warps_k + 2);
    for (int w = 0; w < warps_k; ++w) {
      mine[w] = exponential(row[w * tile_queries * pitch] - reference);
      sum += row[w * tile_queries * pitch + 1] * mine[w];
    }
    mine[warps_k] = top;
    mine[warps_k + 1] = sum;
  }
  __syncthreads();
  result += a.result.offset + offset_of(a.result.outer, outer);
  if (value_size % 8 == 0 && gridDim.y == 1 && (a.aligned & 8) != 0) {  // 8 columns at once
    constexpr int chunks = value_size >= 8 ? value_size / 8 : 1;
#pragma unroll 1
    for (int i = threadIdx.x; i < tile_queries * chunks; i += threads) {
      const int r = i / chunks, v = i % chunks * 8;
      if (first_query + r >= a.queries) break;
      const f32* const mine = figures + r * (warps_k + 2);
      f32 sum[8] = {};
#pragma unroll
      for (int w = 0; w < warps_k; ++w) {
        const float4* const part = reinterpret_cast<const float4*>(all + (w * tile_queries + r) * pitch + v);
        const float4 low = part[0], high = part[1];
        const f32 x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int j = 0; j < 8; ++j) sum[j] += x[j] * mine[w];
      }
      const f32 factor = factor_of(a, mine[warps_k + 1]);
#pragma unroll
      for (int j = 0; j < 8; ++j) sum[j] = factor == 0 ? 0.0f : sum[j] * factor;
      give(result + offset_of(a.result.rows, first_query + r) + v, sum);
    }
    return;
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < tile_queries * value_size; i += threads) {
    const int r = i / value_size, v = i % value_size;
    if (first_query + r >= a.queries) break;
    const f32* const mine = figures + r * (warps_k + 2);
    f32 sum = 0;
    for (int w = 0; w < warps_k; ++w) sum += all[(w * tile_queries + r) * pitch + v] * mine[w];
    if (gridDim.y > 1) {
      f32* const to = partial_of(partial, outer * a.queries + first_query + r, blockIdx.y, gridDim.y);
      to[v] = sum;
      if (v < 2) to[value_size + v] = mine[warps_k + v];
      if (value_size == 1) to[value_size + 1] = mine[warps_k + 1];
    } else {
      const f32 factor = factor_of(a, mine[warps_k + 1]);
      const f32 one[1] = {factor == 0 ? 0.0f : sum * factor};
      give(result + offset_of(a.result.rows, first_query + r) + v * a.result.column, one);
    }
  }
}
