// Images read at positions between the pixels, and windows added up where they lie.

/// The text before this one says what the operator fixes: `axes` of an image, 1 to 3; `sample_mode`, `sample_padding`
/// and `align_corners`. Positions and weights are computed in f64, as the reference has them.
enum { sample_linear, sample_nearest, sample_cubic };
enum { padding_zeros, padding_border, padding_reflection };

struct AxisTaps {
  i64 pixel[4];  ///< -1: outside, a zero
  f64 weight[4];
};

struct AxisSampler {
  f64 size;
  f64 low, high;

  __device__ __forceinline__ explicit AxisSampler(i64 pixels) : size(f64(pixels)) {
    low = align_corners ? 0 : -0.5;
    high = align_corners ? size - 1 : size - 0.5;
  }

  __device__ __forceinline__ f64 inside(f64 x) const {
    if (sample_padding == padding_reflection) {
      const f64 range = high - low;
      if (!(range > 0)) {
        x = low;
      } else {
        const f64 distance = fabs(x - low), turns = floor(distance / range), rest = distance - turns * range;
        x = fmod(turns, 2.0) == 0 ? low + rest : high - rest;
      }
    }
    return x < 0 ? 0 : x > size - 1 ? size - 1 : x;
  }
  __device__ __forceinline__ i64 pixel(f64 at) const {
    if (sample_padding == padding_zeros) return at >= 0 && at < size ? i64(at) : -1;
    return i64(inside(at));
  }

  __device__ __forceinline__ AxisTaps at(f64 position) const {
    f64 x = align_corners ? (position + 1) / 2 * (size - 1) : ((position + 1) * size - 1) / 2;
    // What is not a number, or so far out that pixels cannot be counted, lies outside.
    if (!(fabs(x) < 4503599627370496.0))
      x = x != x || sample_padding == padding_reflection ? -1 : x < 0 ? -2 : size + 2;
    if (sample_mode == sample_nearest) x = rint(x);
    if (sample_mode != sample_cubic && sample_padding != padding_zeros) x = inside(x);
    AxisTaps t = {};
    if (sample_mode == sample_nearest) {
      t.pixel[0] = pixel(rint(x));
      t.weight[0] = 1;
      return t;
    }
    const f64 base = floor(x), rest = x - base;
    if (sample_mode == sample_linear) {
      t.weight[0] = 1 - rest;
      t.weight[1] = rest;
    } else {
      // Keys' cubic convolution with a = -0.75, as PyTorch's.
      const f64 a = -0.75;
      const auto near = [=](f64 d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
      const auto far = [=](f64 d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
      t.weight[0] = far(rest + 1);
      t.weight[1] = near(rest);
      t.weight[2] = near(1 - rest);
      t.weight[3] = far(2 - rest);
    }
    const f64 first = sample_mode == sample_cubic ? base - 1 : base;
    for (int i = 0; i < taps; ++i) t.pixel[i] = pixel(first + i);
    return t;
  }
  static constexpr int taps = sample_mode == sample_cubic ? 4 : sample_mode == sample_linear ? 2 : 1;
};

template <class T, class G>
__device__ __forceinline__ void grid_sample(const GridSampleParameters& p, const T* __restrict__ x,
                                            const G* __restrict__ grid, T* __restrict__ out) {
  using A = decltype(widen(T{}));
  for (u32 item = blockIdx.x * 256u + threadIdx.x; item < p.items; item += gridDim.x * 256u) {
    const u32 rest = divide(item, p.points), point = item - rest * p.points.value;
    const u32 image = divide(rest, p.groups), first = (rest - image * p.groups.value) * group_channels;
    const u32 count = p.channels - first < group_channels ? p.channels - first : group_channels;
    const G* position = grid + (i64(image) * p.points.value + point) * axes;  // from the last axis to the first
    AxisTaps tap[3];
#pragma unroll
    for (int a = 0; a < axes; ++a) tap[a] = AxisSampler(p.size[a]).at(f64(widen(position[axes - 1 - a])));
    const T* from = x + (i64(image) * p.channels + first) * p.plane;
    A sum[group_channels] = {};
    for (int i = 0; i < AxisSampler::taps; ++i)
      for (int j = 0; j < (axes > 1 ? AxisSampler::taps : 1); ++j)
        for (int k = 0; k < (axes > 2 ? AxisSampler::taps : 1); ++k) {
          i64 offset = tap[0].pixel[i] * p.stride[0];
          f64 weight = tap[0].weight[i];
          bool inside = tap[0].pixel[i] >= 0;
          if (axes > 1) {
            inside = inside && tap[1].pixel[j] >= 0;
            offset += tap[1].pixel[j] * p.stride[1];
            weight *= tap[1].weight[j];
          }
          if (axes > 2) {
            inside = inside && tap[2].pixel[k] >= 0;
            offset += tap[2].pixel[k] * p.stride[2];
            weight *= tap[2].weight[k];
          }
          if (!inside) continue;
          const A scale = A(weight);
#pragma unroll
          for (u32 c = 0; c < group_channels; ++c)
            if (c < count) sum[c] += scale * widen(from[c * p.plane + offset]);
        }
#pragma unroll
    for (u32 c = 0; c < group_channels; ++c)
      if (c < count) out[(i64(image) * p.channels + first + c) * p.points.value + point] = Narrow<T>::from(sum[c]);
  }
}
