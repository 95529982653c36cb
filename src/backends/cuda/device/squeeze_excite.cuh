// Squeeze and excite in one kernel: the mean of each channel over an image's pixels, two small products with what
// follows each of them, and the image combined with the second one's results, its gates. The generated text gives
// Squeeze and Excite, what follows the products, and Scale, the combination.
//
// Of each image some blocks share the work, a cluster where there are several: its channels are cut into slabs, and its
// pixels into parts where slabs would be narrow. A block sums its pixels in its slab, and multiplies these means with
// its part of the first product's k; each block adds up all blocks' sums, in their order, and computes its slab's gates.
// So it waits once for the others, and once more where there are parts. The weights, which no kernel writes, are copied
// into shared memory before the kernel's turn, the image then, where there is room: each thread copies what it will
// read itself.

template <class T, u32 V>
struct SmallProduct {
  const T* weights;
  u32 pitch, rows, pieces, lane_bits;

  /// Copies what each thread multiplies into shared memory.
  __device__ __forceinline__ void hold(T* to) {
    const u32 lanes = 1u << lane_bits, lane = threadIdx.x & (lanes - 1), step = blockDim.x >> lane_bits;
    for (u32 row = threadIdx.x >> lane_bits; row < rows; row += step)
      for (u32 j = lane; j < pieces; j += lanes)
        copy_async_16(to + (row * pieces + j) * V, weights + u64(row) * pitch + j * V, 16);
    weights = to;
    pitch = pieces * V;
  }

  /// take(row, its product with x) by one thread for each row: the first of its lanes. All threads come here.
  template <class Take>
  __device__ __forceinline__ void run(const f32* x, Take take) const {
    const u32 lanes = 1u << lane_bits, lane = threadIdx.x & (lanes - 1), step = blockDim.x >> lane_bits;
    for (u32 first = 0; first < rows; first += step) {
      const u32 row = first + (threadIdx.x >> lane_bits);
      f32 sum = 0;
      if (row < rows) {
        const T* from = weights + u64(row) * pitch;
#pragma unroll 2
        for (u32 j = lane; j < pieces; j += lanes) {
          alignas(16) T w[V];
          alignas(16) f32 v[V];
          load(from + j * V, w);
          load(x + j * V, v);
#pragma unroll
          for (u32 i = 0; i < V; ++i) sum = __fmaf_rn(widen(w[i]), v[i], sum);
        }
      }
      sum = combine_lanes(sum, lanes, [](f32 a, f32 b) { return a + b; });
      if (lane == 0 && row < rows) take(row, sum);
    }
  }
};

/// V channels of a pixel, of which `count` exist; the others are 0.
template <bool VECTOR, class T, int V>
__device__ __forceinline__ void load_piece(const T* from, u32 count, T (&to)[V]) {
  if (VECTOR) {
    load(from, to);
  } else {
#pragma unroll
    for (u32 i = 0; i < V; ++i) to[i] = i < count ? from[i] : T{};
  }
}

/// HOLDS: the block's part of the image has room in shared memory. VECTOR: pieces of 16 bytes are all there and aligned.
template <class T, bool HOLDS, bool VECTOR, class Squeeze, class Excite, class Scale>
__device__ __forceinline__ void squeeze_excite(const SqueezeExciteParameters& p) {
  constexpr u32 V = 16 / sizeof(T);
  DYNAMIC_SHARED(shared);
  const u32 thread = threadIdx.x, threads = blockDim.x, blocks = gridDim.y, rank = blockIdx.y;
  const u32 parts = 1u << p.part_bits, slab = rank & ((1u << p.slab_bits) - 1), part = rank >> p.slab_bits;
  const u32 pieces = (p.channels + V - 1) / V;
  const u32 first_piece = (slab * pieces) >> p.slab_bits, width = ((slab + 1) * pieces >> p.slab_bits) - first_piece;
  const u32 first_channel = first_piece * V, all_channels = width * V;
  const u32 channels = p.channels - first_channel < all_channels ? p.channels - first_channel : all_channels;
  const u32 first_pixel = u32(u64(part) * p.pixels >> p.part_bits),
            end_pixel = u32(u64(part + 1) * p.pixels >> p.part_bits);
  const u32 own_first = part * width >> p.part_bits, own_end = (part + 1) * width >> p.part_bits;
  // Threads that follow each other have the slab's pieces of a pixel.
  const u32 down = thread / width, piece = thread - down * width, downs = threads / width;
  f32* const means = reinterpret_cast<f32*>(shared + p.means);
  f32* const gates = reinterpret_cast<f32*>(shared + p.gates);
  f32* const own = reinterpret_cast<f32*>(shared + p.own);
  f32* const hidden = reinterpret_cast<f32*>(shared + p.hidden_at);
  f32* const scratch = reinterpret_cast<f32*>(shared + p.scratch);
  const u32 padded_hidden = (p.hidden + 7) / 8 * 8;
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) cluster_arrive();
#endif

  SmallProduct<T, V> squeeze = {static_cast<const T*>(p.squeeze) + first_channel + own_first * V, p.squeeze_pitch,
                                p.hidden, own_end - own_first, p.squeeze_bits};
  SmallProduct<T, V> excite = {static_cast<const T*>(p.excite) + u64(first_channel) * p.excite_pitch, p.excite_pitch,
                               channels, (p.hidden + V - 1) / V, p.excite_bits};
  if (p.holds_weights) {
    squeeze.hold(reinterpret_cast<T*>(shared + p.squeeze_at));
    excite.hold(reinterpret_cast<T*>(shared + p.excite_at));
    copy_async_commit();
  }
  take_turn();

  const bool works = down < downs;
  const u32 channel = first_channel + piece * V;
  const u32 count = p.channels - channel < V ? p.channels - channel : V;
  const u64 image = u64(blockIdx.x) * p.pixels * p.channels;
  const T* const x = static_cast<const T*>(p.x) + image + channel;
  T* const held = reinterpret_cast<T*>(shared + p.image_at) + piece * V;
  f32 sum[V] = {};
  if (HOLDS && works) {
    for (u32 at = first_pixel + down; at < end_pixel; at += downs) {
      T* const to = held + u64(at - first_pixel) * all_channels;
      if (VECTOR) {
        copy_async_16(to, x + u64(at) * p.channels, 16);
      } else {
        alignas(16) T one[V];
        load_piece<false>(x + u64(at) * p.channels, count, one);
        store(to, one);
      }
    }
  }
  copy_async_commit();
  // What follows the sums is on its way meanwhile: from memory it takes half a microsecond.
  Squeeze of_squeeze;
  if (thread < p.hidden) of_squeeze.load(p, thread);
  Excite of_excite;
  const u32 excite_row = thread >> p.excite_bits;
  if (excite_row < channels) of_excite.load(p, first_channel + excite_row);
  Scale of_scale;
  if (works) of_scale.template load<V>(p, channel, count);
  if (!HOLDS && works) {
    constexpr u32 together = VECTOR ? 8 : 2;
    u32 at = first_pixel + down;
    for (; at + (together - 1) * downs < end_pixel; at += together * downs) {
      alignas(16) T several[together][V];
#pragma unroll
      for (u32 i = 0; i < together; ++i)
        load_piece<VECTOR>(x + u64(at + i * downs) * p.channels, count, several[i]);
#pragma unroll
      for (u32 i = 0; i < together; ++i)
#pragma unroll
        for (u32 v = 0; v < V; ++v) sum[v] += widen(several[i][v]);
    }
    for (; at < end_pixel; at += downs) {
      alignas(16) T one[V];
      load_piece<VECTOR>(x + u64(at) * p.channels, count, one);
#pragma unroll
      for (u32 v = 0; v < V; ++v) sum[v] += widen(one[v]);
    }
  }
  copy_async_wait<0>();
  if (HOLDS && works) {
#pragma unroll 4
    for (u32 at = first_pixel + down; at < end_pixel; at += downs) {
      alignas(16) T one[V];
      load(held + u64(at - first_pixel) * all_channels, one);
#pragma unroll
      for (u32 v = 0; v < V; ++v) sum[v] += widen(one[v]);
    }
  }

  // The sums of the block's pixels.
  if (works) store(scratch + (down * width + piece) * V, sum);
  __syncthreads();
  const u32 lanes = 1u << p.channel_bits, lane = thread & (lanes - 1);
  for (u32 first = 0; first < all_channels; first += threads >> p.channel_bits) {
    const u32 c = first + (thread >> p.channel_bits);
    f32 total = 0;
    if (c < all_channels) {
#pragma unroll 4
      for (u32 d = lane; d < downs; d += lanes) total += scratch[d * all_channels + c];
    }
    total = combine_lanes(total, lanes, [](f32 a, f32 b) { return a + b; });
    if (lane == 0 && c < all_channels) means[c] = total;
  }
  __syncthreads();
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) cluster_wait();  // all have begun, long ago
  if (parts > 1) {
    for (u32 e = thread; e < all_channels / 4 * parts; e += threads) {
      const u32 to = e & (parts - 1), at = (e >> p.part_bits) * 4;
      store_to_cluster(shared_address(shared + p.totals) + (part * p.totals_pitch + at) * 4, slab + (to << p.slab_bits),
                       *reinterpret_cast<const float4*>(means + at));
    }
    cluster_arrive();
    cluster_wait();
    const f32* const totals = reinterpret_cast<const f32*>(shared + p.totals);
    for (u32 c = thread; c < all_channels; c += threads) {
      f32 total = 0;
      for (u32 i = 0; i < parts; ++i) total += totals[i * p.totals_pitch + c];
      means[c] = total;
    }
    __syncthreads();
  }
#endif

  squeeze.run(means + own_first * V, [&](u32 row, f32 product) { own[row] = product * p.part; });
  __syncthreads();
  const f32* all = own;
#if __CUDA_ARCH__ >= 900
  if (blocks > 1) {
    for (u32 e = thread; e < padded_hidden / 4 * blocks; e += threads) {
      const u32 to = e & (blocks - 1), at = (e >> (p.slab_bits + p.part_bits)) * 4;
      store_to_cluster(shared_address(shared + p.all) + (rank * padded_hidden + at) * 4, to,
                       *reinterpret_cast<const float4*>(own + at));
    }
    cluster_arrive();
    cluster_wait();
    all = reinterpret_cast<const f32*>(shared + p.all);
  }
#endif
  for (u32 s = thread; s < padded_hidden; s += threads) {
    f32 total = 0;
    if (s < p.hidden) {
#pragma unroll 4
      for (u32 i = 0; i < blocks; ++i) total += all[i * padded_hidden + s];
      if (s != thread) of_squeeze.load(p, s);
      total = of_squeeze.of(total);
    }
    hidden[s] = total;
  }
  __syncthreads();
  excite.run(hidden, [&](u32 row, f32 product) {
    if (row != excite_row) of_excite.load(p, first_channel + row);
    gates[row] = of_excite.of(product);
  });
  __syncthreads();

  if (!works) return;
  alignas(16) f32 gate[V];
  load(gates + piece * V, gate);
  T* const y = static_cast<T*>(p.y) + image + channel;
#pragma unroll 2
  for (u32 at = first_pixel + down; at < end_pixel; at += downs) {
    alignas(16) T from[V], to[V];
    if (HOLDS)
      load(held + u64(at - first_pixel) * all_channels, from);
    else
      load_piece<VECTOR>(x + u64(at) * p.channels, count, from);
    of_scale.template run<VECTOR>(p, from, gate, image + u64(at) * p.channels + channel, count, to);
    T* const there = y + u64(at) * p.channels;
    if (VECTOR) {
      store(there, to);
    } else {
      for (u32 i = 0; i < count; ++i) there[i] = to[i];
    }
  }
}
