// Group and instance norm of [image, position, channel] whose groups are narrow: neighbouring channels are read together,
// whatever group they belong to. The first kernel finds the mean and the squared distances of each group over a split of
// the positions; the second one merges the splits in their order and normalises. The generated text defines Element, Wide,
// ScaleElement and BiasElement.

/// What is known of some numbers. Source: Chan, Golub & LeVeque, "Updating formulae and a pairwise algorithm for
/// computing sample variances", 1979; and for one number more, Welford, 1962.
struct Moments {
  Wide count, mean, squares;
};

__device__ __forceinline__ Moments merge(const Moments& a, const Moments& b) {
  const Wide count = a.count + b.count;
  if (count == 0) return a;
  const Wide distance = b.mean - a.mean, part = b.count / count;
  return {count, a.mean + distance * part, a.squares + b.squares + distance * distance * a.count * part};
}

/// `partial`: [image, group, split] of mean and squared distances.
template <int V>
__device__ __forceinline__ void find_moments(const GroupColumnsParameters& shape, const Element* in, Wide* partial) {
  __shared__ Moments others[V][column_threads];
  const u32 lane = threadIdx.x % shape.lanes, down = threadIdx.x / shape.lanes, downs = column_threads / shape.lanes;
  const u32 image = divide(blockIdx.x, shape.tiles);
  const u32 first_group = (blockIdx.x - image * shape.tiles.value) * shape.tile_groups;
  const u32 groups = first_group + shape.tile_groups < shape.groups ? shape.tile_groups : shape.groups - first_group;
  const u32 begin = blockIdx.y * shape.per_split;
  const u32 end = shape.positions - begin < shape.per_split ? shape.positions : begin + shape.per_split;
  Wide mean[V] = {}, squares[V] = {};
  Wide count = 0;
  if (lane * V < groups * shape.width) {
    const Element* first = in + u64(image) * shape.positions * shape.channels + first_group * shape.width + lane * V;
#pragma unroll 4
    for (u32 at = begin + down; at < end; at += downs) {
      Wide x[V];
      load_wide(first + u64(at) * shape.channels, x);
      count += 1;
      const Wide part = Wide(1) / count;
#pragma unroll
      for (int v = 0; v < V; ++v) {
        const Wide distance = x[v] - mean[v];
        mean[v] += distance * part;
        squares[v] += distance * (x[v] - mean[v]);
      }
    }
  }
#pragma unroll
  for (int v = 0; v < V; ++v) others[v][threadIdx.x] = {count, mean[v], squares[v]};
  for (u32 half = downs / 2; half > 0; half /= 2) {
    __syncthreads();
    if (down < half) {
#pragma unroll
      for (int v = 0; v < V; ++v) {
        Moments& mine = others[v][threadIdx.x];
        mine = merge(mine, others[v][threadIdx.x + half * shape.lanes]);
      }
    }
  }
  __syncthreads();
  if (threadIdx.x >= groups) return;
  Moments all = {Wide(0), Wide(0), Wide(0)};
  for (u32 c = threadIdx.x * shape.width; c < (threadIdx.x + 1) * shape.width; ++c) all = merge(all, others[c % V][c / V]);
  Wide* to = partial + ((u64(image) * shape.groups + first_group + threadIdx.x) * shape.splits + blockIdx.y) * 2;
  to[0] = all.mean;
  to[1] = all.squares;
}

template <int V>
__device__ __forceinline__ void normalize_columns(const GroupColumnsParameters& shape, const Element* in,
                                                  const ScaleElement* scale, const BiasElement* bias, Element* out,
                                                  const Wide* partial) {
  DYNAMIC_SHARED(shared);
  Wide* const means = reinterpret_cast<Wide*>(shared);  // of channels
  Wide* const factors = means + shape.channels;
  Wide* const biases = factors + shape.channels;
  Wide* const figures = biases + shape.channels;  // of groups: mean and factor
  const u32 image = divide(blockIdx.x, shape.blocks), block = blockIdx.x - image * shape.blocks.value;
  for (u32 g = threadIdx.x; g < shape.groups; g += column_threads) {
    const Wide* part = partial + (u64(image) * shape.groups + g) * shape.splits * 2;
    const Wide all = Wide(shape.positions) * Wide(shape.width);
    const auto count = [&](u32 s) {
      const u32 begin = s * shape.per_split;
      return Wide(shape.positions - begin < shape.per_split ? shape.positions - begin : shape.per_split) *
             Wide(shape.width);
    };
    Wide mean = 0, squares = 0;
#pragma unroll 8
    for (u32 s = 0; s < shape.splits; ++s) mean += part[2 * s] * (count(s) / all);
#pragma unroll 8
    for (u32 s = 0; s < shape.splits; ++s) {
      const Wide distance = part[2 * s] - mean;
      squares += part[2 * s + 1] + distance * distance * count(s);
    }
    figures[2 * g] = mean;
    figures[2 * g + 1] = Wide(1) / sqrt(squares / all + Wide(shape.epsilon));
  }
  __syncthreads();
  for (u32 c = threadIdx.x; c < shape.channels; c += column_threads) {
    const u32 g = c / shape.width;
    means[c] = figures[2 * g];
    factors[c] = scale != nullptr ? figures[2 * g + 1] * Wide(widen(scale[c])) : figures[2 * g + 1];
    biases[c] = bias != nullptr ? Wide(widen(bias[c])) : Wide(0);
  }
  __syncthreads();
  const u64 begin = u64(image) * shape.positions * shape.channels;
  const u32 chunks = shape.positions * shape.chunks.value;
  for (u32 at = block * column_threads + threadIdx.x; at < chunks; at += shape.blocks.value * column_threads) {
    const u32 c = (at - divide(at, shape.chunks) * shape.chunks.value) * V;
    Wide x[V];
    load_wide(in + begin + u64(at) * V, x);
#pragma unroll
    for (int v = 0; v < V; ++v) x[v] = (x[v] - means[c + v]) * factors[c + v] + biases[c + v];
    store_wide(out + begin + u64(at) * V, x);
  }
}
