// Attention over caches in blocks, of 16-bit floats on tensor cores: 16 · warps_q rows and tiles of keys, each cut among
// warps_k warps, whose sums meet at the end, as in device/attention_matrix.cuh. The generated text defines pack().

/// Rows into shared memory, `padded` elements each. `find(r)` is where row r is, an i32 in rows; zeros where that is
/// negative.
template <class Layout, int rows, int size, int padded, int threads, class Find>
__device__ __forceinline__ void copy_found_rows(Element* tile, const Element* data, bool aligned, Find find) {
  constexpr u32 chunks = padded / 8;
  if (aligned) {
    const auto copy = [&](u32 r, u32 c) {
      const i32 row = find(r);
      const bool exists = row >= 0 && c < size;
      copy_async_16_or_zero(shared_address(tile + Layout::template at<rows, padded>(r, c)),
                            data + (c < size ? c : 0) + u64(u32(row < 0 ? 0 : row)) * size, exists);
    };
    if constexpr (threads % chunks == 0 && rows * chunks % threads == 0) {
      // A thread has the same columns of some rows: five instructions each.
      const u32 first = threadIdx.x / chunks, c = threadIdx.x % chunks * 8;
#pragma unroll
      for (u32 n = 0; n < rows * chunks / threads; ++n) copy(first + n * (threads / chunks), c);
    } else {
#pragma unroll 2
      for (u32 i = threadIdx.x; i < rows * chunks; i += threads) copy(i / chunks, i % chunks * 8);
    }
    return;
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * padded; i += threads) {
    const int r = i / padded, c = i % padded;
    const i32 row = find(r);
    Element x = {};
    if (row >= 0 && c < size) x = data[i64(row) * size + c];
    tile[Layout::template at<rows, padded>(r, c)] = x;
  }
}

/// Eight codes as numbers.
__device__ __forceinline__ void widen_codes(f32 (&to)[8], uint2 codes, i8) {
  const u32 words[2] = {codes.x ^ 0x80808080u, codes.y ^ 0x80808080u};
#pragma unroll
  for (int i = 0; i < 8; ++i)  // the last byte of 2^23
    to[i] = __uint_as_float(__byte_perm(words[i / 4], 0x4b000000u, 0x7440u + i % 4)) - 8388736.0f;
}
__device__ __forceinline__ void widen_codes(f32 (&to)[8], uint2 codes, f8e4m3) {
  const u32 words[2] = {codes.x, codes.y};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    f8e4m3 code;
    code.bits = u8(words[i / 4] >> i % 4 * 8);
    to[i] = widen(code);
  }
}

/// Rows of a cache into shared memory as copy_found_rows() brings them: of the elements' type as they are, …
template <class Layout, bool is_scaled, int rows, int size, int padded, int threads, class Find>
__device__ __forceinline__ void bring_rows(Element* tile, const Element* data, const f32*, bool aligned, Find find) {
  copy_found_rows<Layout, rows, size, padded, threads>(tile, data, aligned, find);
}
/// … and of codes, which are rounded once their scale is in them.
template <class Layout, bool is_scaled, int rows, int size, int padded, int threads, class Code, class Find>
__device__ __forceinline__ void bring_rows(Element* tile, const Code* data, const f32* scales, bool aligned, Find find) {
  constexpr int chunks = padded / 8;
  if (aligned) {
#pragma unroll 4
    for (int i = threadIdx.x; i < rows * chunks; i += threads) {
      const int r = i / chunks, c = i % chunks * 8;
      const i32 row = find(r);
      uint4 packed = make_uint4(0, 0, 0, 0);
      if (row >= 0 && c < size) {
        f32 x[8];
        widen_codes(x, *reinterpret_cast<const uint2*>(data + i64(row) * size + c), Code());
        const f32 scale = is_scaled ? scales[row] : 1.0f;
        packed = make_uint4(pack(x[0] * scale, x[1] * scale), pack(x[2] * scale, x[3] * scale),
                            pack(x[4] * scale, x[5] * scale), pack(x[6] * scale, x[7] * scale));
      }
      *reinterpret_cast<uint4*>(tile + Layout::template at<rows, padded>(r, c)) = packed;
    }
    return;
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < rows * padded; i += threads) {
    const int r = i / padded, c = i % padded;
    const i32 row = find(r);
    const f32 x = row >= 0 && c < size ? cached<is_scaled>(data[i64(row) * size + c], scales, row) : 0.0f;
    tile[Layout::template at<rows, padded>(r, c)] = Narrow<Element>::from(x);
  }
}

/// Where the step's own rows are in the caches already.
template <int tile_rows, int tile_keys>
struct NoPagedStep {
  static constexpr bool exists = false;
};

/// `make_step(shared)`: the Step of a block, which gets so much of shared memory as it needs.
template <int warps_q, int warps_k, int warp_keys, template <int, int> class StepOf, class MakeStep>
__device__ __forceinline__ void attend(const PagedParameters& p, const PagedPointers& at, const Complaint& complaint,
                                       MakeStep make_step) {
  constexpr int tile_rows = 16 * warps_q, tile_keys = warp_keys * warps_k, threads = 32 * warps_q * warps_k;
  typedef WarpProducts<warps_q, warps_k, warp_keys> Products;
  typedef typename Products::Layout Layout;
  constexpr int key_elements = Layout::template elements<tile_keys, head_padded>;
  constexpr int value_elements = Layout::template elements<tile_keys, value_padded>;
  static_assert(value_padded == value_columns && tile_keys <= threads, "a thread looks up one key of a piece");
  DYNAMIC_SHARED(shared);
  Element* const queries = reinterpret_cast<Element*>(shared);
  Element* const keys = queries + Layout::template elements<tile_rows, head_padded>;
  Element* const values = keys + 2 * key_elements;
  i32* const rows = reinterpret_cast<i32*>(values + 2 * value_elements);  // [2][tile_keys], of the caches
  const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32, warp_q = warp / warps_k, warp_k = warp % warps_k;
  const u32 key_head = blockIdx.z;
  typedef StepOf<tile_rows, tile_keys> Step;
  auto step = make_step(reinterpret_cast<unsigned char*>(rows + 2 * tile_keys));
  PagedTile tile;
  PagedPart part;
  // Which slots the kernel before writes is data: caches that it may write are read in our turn.
  bool caches_are_early = false;
  if constexpr (Step::exists) caches_are_early = tables_are_early && step.step.caches_are_early;
  if (!find_part<tile_rows, tile_keys, 2 * tile_keys>(p, at, complaint, tile, part, rows, shared + p.own_bytes,
                                                      tables_are_early && !caches_are_early)) {
    if (tables_are_early) take_turn();
    if (blockIdx.y == 0) clear_padding_tokens(p, at, tile, key_head);
    if constexpr (Step::exists) step.store_all_padding(p, tile, key_head, complaint);
    return;
  }
  const u32 pieces = part.pieces<tile_keys>();
  if (tables_are_early && !caches_are_early) take_turn();
  if constexpr (!Step::exists)
    copy_found_rows<Layout, tile_rows, head_size, head_padded, threads>(
        queries, at.query, (p.aligned & 1) != 0, [&](int r) {
          const u32 row = tile.first_row + r;
          return row < tile.end_row ? i32(place_of(p, tile, key_head, row)) : -1;
        });
  __syncthreads();  // rows are known
  // Piece i, and where its keys are, in half i % 2.
  const auto bring = [&](u32 piece) {
    if (piece < pieces) {
      const u32 stage = piece % 2;
      const auto find = [&](int r) { return rows[stage * tile_keys + r]; };
      bring_rows<Layout, key_scaled, tile_keys, head_size, head_padded, threads>(
          keys + stage * key_elements, at.keys, at.key_scales, (p.aligned & 2) != 0, find);
      bring_rows<Layout, value_scaled, tile_keys, value_size, value_padded, threads>(
          values + stage * value_elements, at.values, at.value_scales, (p.aligned & 4) != 0, find);
    }
    copy_async_commit();
  };
#pragma unroll 1
  for (u32 piece = 0; piece < 2; ++piece) bring(piece);
  if constexpr (Step::exists) {
    if (caches_are_early) take_turn();
    step.bring(p, tile, key_head, queries, complaint);
    __syncthreads();
  }

  // Of the two rows whose scores the lane has.
  i64 first[2], last[2], own[2];  // keys that it sees, and its position
  const f32* bias[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const u32 row = tile.first_row + warp_q * 16 + lane / 4 + 8 * r;
    const u32 known = row < tile.end_row ? row : tile.end_row - 1;
    const i64 position = position_of(p, tile, known), end = end_seen(p, tile, position);
    own[r] = position;
    bias[r] = bias_of(p, at, place_of(p, tile, key_head, known));
    first[r] = first_seen(p, position);
    last[r] = end < part.end ? end : part.end;
  }
  // Keys that all rows of the tile see.
  const i64 seen_from = first_seen(p, position_of(p, tile, tile.end_row - 1));
  const i64 end_of_first = end_seen(p, tile, position_of(p, tile, tile.first_row));
  const i64 seen_to = end_of_first < part.end ? end_of_first : part.end;
  f32 sums[value_padded / 8][4] = {};
  f32 largest[2] = {-infinity(), -infinity()}, total[2] = {0, 0};
  Products products;

#pragma unroll 1
  for (u32 piece = 0; piece < pieces; ++piece) {
    const u32 stage = piece % 2;
    // Where the keys after the next ones are comes while these do.
    const i64 later = part.begin + i64(piece + 2) * tile_keys + threadIdx.x;
    const bool looks_up = piece + 2 < pieces && threadIdx.x < tile_keys;
    const i32 entry = looks_up ? entry_of(p, at, tile, later, part.end) : -1;
    copy_async_wait<1>();
    if constexpr (Step::exists) {
      const i32 found = threadIdx.x < tile_keys ? step.newest(p, rows[stage * tile_keys + threadIdx.x]) : -1;
      if (__syncthreads_or(found >= 0)) {
        step.replace(p, found, key_head, keys + stage * key_elements, values + stage * value_elements);
        __syncthreads();
      }
    } else {
      __syncthreads();
    }
    if (looks_up) rows[stage * tile_keys + threadIdx.x] = cache_row(p, entry, later, part.end, key_head, complaint);
    products.take_queries(queries, piece == 0);
    f32 scores[warp_keys / 8][4];
    products.multiply_keys(scores, keys + stage * key_elements);
    const i64 piece_key = part.begin + i64(piece) * tile_keys;
    const i64 first_key = piece_key + warp_k * warp_keys + lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        scores[n][e] = scaled(p, scores[n][e], bias[e / 2], first_key + n * 8 + e % 2 - own[e / 2]);
    if (piece_key < seen_from || piece_key + tile_keys > seen_to) {
#pragma unroll
      for (int n = 0; n < warp_keys / 8; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const i64 key = first_key + n * 8 + e % 2;
          if (key < first[e / 2] || key >= last[e / 2]) scores[n][e] = -infinity();
        }
    }
    add_scores(products, scores, values + stage * value_elements, largest, total, sums);
    __syncthreads();  // before the keys after the next ones take these ones' place
    bring(piece + 2);
  }

  if (blockIdx.y == 0) {
    if constexpr (Step::exists) {
      step.store(p, tile, key_head);
      step.store_padding(p, tile, key_head);
    }
    clear_padding_tokens(p, at, tile, key_head);
  }

  // The warps' sums meet in shared memory, from which rows are given away as a whole.
  copy_async_wait<0>();
  __syncthreads();
  f32* const found = reinterpret_cast<f32*>(queries);  // [warps_k][tile_rows][found_pitch]
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    total[r] = combine_lanes(total[r], 4, [](f32 x, f32 y) { return x + y; });
    f32* const row = found + (warp_k * tile_rows + warp_q * 16 + lane / 4 + 8 * r) * found_pitch;
#pragma unroll
    for (int v = 0; v < value_padded / 8; ++v)
      *reinterpret_cast<float2*>(row + v * 8 + lane % 4 * 2) = make_float2(sums[v][2 * r], sums[v][2 * r + 1]);
    if (lane % 4 == 0) {
      row[value_padded] = largest[r];
      row[value_padded + 1] = total[r];
    }
  }
  finish_part<tile_rows, warps_k>(p, at, tile, found, shared + p.own_bytes, reinterpret_cast<u32*>(rows));
}
