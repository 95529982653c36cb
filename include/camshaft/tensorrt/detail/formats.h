// Formats of tensors other than row-major: what a plugin asks for is packed in front of it, and unpacked behind it.
#pragma once

#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "camshaft/camshaft_plugin.h"
#include "camshaft/tensorrt/detail/instance.h"

namespace nvinfer1 {
namespace camshaft_detail CAMSHAFT_TENSORRT_OWN {

/// How a format splits the axis of channels: into groups that lie outside of the spatial axes (kCHW32), of which there
/// is one alone, with all channels, where these come last (kHWC8). Groups are filled up with zeros.
struct FormatFacts {
  TensorFormat format;
  int32_t spatial_axes;
  int32_t multiple;  // of channels in a group
  bool channels_last;
};
constexpr FormatFacts format_facts[] = {{TensorFormat::kHWC, 2, 1, true},     {TensorFormat::kHWC8, 2, 8, true},
                                        {TensorFormat::kHWC16, 2, 16, true},  {TensorFormat::kCHW2, 2, 2, false},
                                        {TensorFormat::kCHW4, 2, 4, false},   {TensorFormat::kCHW16, 2, 16, false},
                                        {TensorFormat::kCHW32, 2, 32, false}, {TensorFormat::kDHWC, 3, 1, true},
                                        {TensorFormat::kDHWC8, 3, 8, true},   {TensorFormat::kCDHW32, 3, 32, false}};

inline size_t element_bytes(DataType type) {
  switch (type) {
    case DataType::kFLOAT:
    case DataType::kINT32:
      return 4;
    case DataType::kHALF:
    case DataType::kBF16:
      return 2;
    case DataType::kINT64:
      return 8;
    case DataType::kINT4:
    case DataType::kFP4:
      return 0;  // elements share bytes
    default:
      return 1;
  }
}

/// A tensor in a format: [outer, groups, inner, group], of elements that are [outer, channels, inner] row by row.
struct Packing {
  int64_t outer = 1, channels = 1, inner = 1, groups = 1, group = 1;
  size_t width = 0;  // bytes of an element

  Packing(FormatFacts const& facts, PluginTensorDesc const& desc) : width(element_bytes(desc.type)) {
    const int32_t channel_axis = desc.dims.nbDims - facts.spatial_axes - 1;
    for (int32_t axis = 0; axis < desc.dims.nbDims; ++axis)
      (axis < channel_axis ? outer : axis > channel_axis ? inner : channels) *= desc.dims.d[axis];
    const int64_t padded = (channels + facts.multiple - 1) / facts.multiple * facts.multiple;
    group = facts.channels_last ? padded : facts.multiple;
    groups = facts.channels_last ? 1 : padded / facts.multiple;
  }
  int64_t plain_elements() const { return outer * channels * inner; }
  int64_t packed_elements() const { return outer * groups * inner * group; }
  size_t packed_bytes() const { return static_cast<size_t>(packed_elements()) * width; }
};

/// Null for row-major tensors.
inline FormatFacts const* facts_of(TensorFormat format) {
  for (FormatFacts const& facts : format_facts)
    if (facts.format == format) return &facts;
  return nullptr;
}

inline bool can_have(PluginTensorDesc const& desc, FormatFacts const& facts) {
  return desc.dims.nbDims > facts.spatial_axes && element_bytes(desc.type) > 0;
}

/// Gives each description the first format by which the plugin takes all of them, row-major before others. How far it
/// came: the place that no format was taken for, or the count of descriptions.
inline int32_t choose_formats(Plugin& plugin, Descs& descs, int32_t inputs, bool row_major_alone, int32_t place,
                              int32_t& questions) {
  constexpr int32_t most_questions = 4096;
  if (place == count_of(descs)) return place;
  PluginTensorDesc& desc = descs[static_cast<size_t>(place)];
  int32_t furthest = place;
  const auto takes = [&](TensorFormat format) {
    if (++questions > most_questions) return false;
    desc.format = format;
    if (!plugin.supports(place, descs, inputs)) return false;
    const int32_t reached = choose_formats(plugin, descs, inputs, row_major_alone, place + 1, questions);
    furthest = reached > furthest ? reached : furthest;
    return reached == count_of(descs);
  };
  if (takes(TensorFormat::kLINEAR)) return furthest;
  if (!row_major_alone)
    for (FormatFacts const& facts : format_facts)
      if (can_have(desc, facts) && takes(facts.format)) return furthest;
  desc.format = TensorFormat::kLINEAR;
  return furthest;
}

/// Kernels for a GPU: one thread an element of what is written.
constexpr char const* packing_text = R"(
template <class T>
__device__ void pack(const T* from, T* to, long long channels, long long inner, long long groups, long long group,
                     long long count) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
    const long long in_group = at % group, i = at / group % inner, g = at / group / inner % groups;
    const long long channel = g * group + in_group, outer = at / group / inner / groups;
    to[at] = channel < channels ? from[(outer * channels + channel) * inner + i] : T(0);
  }
}
template <class T>
__device__ void unpack(const T* from, T* to, long long channels, long long inner, long long groups, long long group,
                       long long count) {
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x; at < count; at += step) {
    const long long i = at % inner, channel = at / inner % channels, outer = at / inner / channels;
    to[at] = from[((outer * groups + channel / group) * inner + i) * group + channel % group];
  }
}
#define CAMSHAFT_PACKING(T, width)                                                                          \
  extern "C" __global__ void camshaft_pack##width(const T* from, T* to, long long channels, long long inner, \
                                                  long long groups, long long group, long long count) {      \
    pack(from, to, channels, inner, groups, group, count);                                                   \
  }                                                                                                          \
  extern "C" __global__ void camshaft_unpack##width(const T* from, T* to, long long channels,               \
                                                    long long inner, long long groups, long long group,      \
                                                    long long count) {                                       \
    unpack(from, to, channels, inner, groups, group, count);                                                 \
  }
CAMSHAFT_PACKING(unsigned char, 1)
CAMSHAFT_PACKING(unsigned short, 2)
CAMSHAFT_PACKING(unsigned int, 4)
CAMSHAFT_PACKING(unsigned long long, 8)
)";

/// On the host. `T` is as wide as an element.
template <class T>
void repack_on_host(Packing const& p, T const* from, T* to, bool packs) {
  for (int64_t outer = 0; outer < p.outer; ++outer)
    for (int64_t channel = 0; channel < p.channels; ++channel) {
      const int64_t plain = (outer * p.channels + channel) * p.inner;
      const int64_t packed = (outer * p.groups + channel / p.group) * p.inner * p.group + channel % p.group;
      for (int64_t i = 0; i < p.inner; ++i) {
        if (packs) {
          to[packed + i * p.group] = from[plain + i];
        } else {
          to[plain + i] = from[packed + i * p.group];
        }
      }
    }
}

/// Copies between a tensor that is row-major and one in a format, on the host or in the run's stream.
inline void repack(camshaft_plugin_run const& run, Packing const& p, void const* from, void* to, bool packs) {
  const int64_t count = packs ? p.packed_elements() : p.plain_elements();
  if (count == 0) return;
  if (run.cuda) {
    const std::string kernel = (packs ? "camshaft_pack" : "camshaft_unpack") + std::to_string(p.width);
    const int64_t most_blocks = 16 * static_cast<int64_t>(run.cuda->multiprocessors);
    const int64_t wanted = (count + 255) / 256;
    const uint32_t blocks[3] = {static_cast<uint32_t>(wanted < most_blocks ? wanted : most_blocks), 1, 1};
    const uint32_t threads[3] = {256, 1, 1};
    long long sizes[] = {p.channels, p.inner, p.groups, p.group, count};
    void* arguments[] = {&from, &to, &sizes[0], &sizes[1], &sizes[2], &sizes[3], &sizes[4]};
    if (run.cuda->launch(&run, kernel.c_str(), blocks, threads, 0, arguments) != 0)
      throw std::runtime_error("a tensor cannot be brought into the format that the plugin takes");
    return;
  }
  if (packs) std::memset(to, 0, p.packed_bytes());
  if (p.width == 1) repack_on_host(p, static_cast<uint8_t const*>(from), static_cast<uint8_t*>(to), packs);
  if (p.width == 2) repack_on_host(p, static_cast<uint16_t const*>(from), static_cast<uint16_t*>(to), packs);
  if (p.width == 4) repack_on_host(p, static_cast<uint32_t const*>(from), static_cast<uint32_t*>(to), packs);
  if (p.width == 8) repack_on_host(p, static_cast<uint64_t const*>(from), static_cast<uint64_t*>(to), packs);
}

/// The operands of a run in the formats that their descriptions have: copies of them lie in `scratch`.
class Packed {
 public:
  static constexpr size_t alignment = 256;
  explicit Packed(Descs const& in, Descs const& out) : in_(in), out_(out) {}

  size_t bytes() const {
    size_t all = 0;
    for (auto const* descs : {&in_, &out_})
      for (PluginTensorDesc const& desc : *descs) all += bytes_of_copy(desc);
    return all;
  }
  /// Packs inputs, and puts the copies' addresses in place of the operands'.
  void enter(camshaft_plugin_run const& run, char* scratch, std::vector<void const*>& inputs,
             std::vector<void*>& outputs) {
    plain_outputs_ = outputs;
    for (size_t i = 0; i < in_.size(); ++i) {
      FormatFacts const* facts = facts_of(in_[i].format);
      if (!facts) continue;
      repack(run, Packing(*facts, in_[i]), inputs[i], scratch, true);
      inputs[i] = scratch;
      scratch += bytes_of_copy(in_[i]);
    }
    for (size_t o = 0; o < out_.size(); ++o) {
      if (!facts_of(out_[o].format)) continue;
      outputs[o] = scratch;
      scratch += bytes_of_copy(out_[o]);
    }
  }
  /// Unpacks outputs.
  void leave(camshaft_plugin_run const& run, std::vector<void*> const& outputs) {
    for (size_t o = 0; o < out_.size(); ++o)
      if (FormatFacts const* facts = facts_of(out_[o].format))
        repack(run, Packing(*facts, out_[o]), outputs[o], plain_outputs_[o], false);
  }

 private:
  static size_t bytes_of_copy(PluginTensorDesc const& desc) {
    FormatFacts const* facts = facts_of(desc.format);
    return facts ? (Packing(*facts, desc).packed_bytes() + alignment - 1) / alignment * alignment : 0;
  }
  Descs const& in_;
  Descs const& out_;
  std::vector<void*> plain_outputs_;
};

}  // namespace CAMSHAFT_TENSORRT_OWN
}  // namespace nvinfer1
