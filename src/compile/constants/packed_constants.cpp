#include "compile/constants/packed_constants.h"

#include <fmt/format.h>

#include <cstring>

#include "base/aligned_buffer.h"
#include "base/first_touch.h"
#include "ir/widened.h"

namespace camshaft {

void throw_misfit(const PackedConstant& packed, const Dims& dims) {
  throw Error(ErrorCode::corrupt_engine, fmt::format("constant '{}': its packed layout '{}' does not fit its shape {}",
                                                     packed.constant, packed.layout, to_string(dims)));
}

namespace {

thread_local PackedUses* uses_of_thread = nullptr;

Tensor view_fallback(const PackedConstant& fallback, const Tensor& elided) {
  if (holds_objects(elided.dtype()) || fallback.bytes.size() != elided.bytes()) throw_misfit(fallback, elided.dims());
  return {elided.dtype(), elided.dims(), fallback.bytes, fallback.owner};
}

}  // namespace

PackedUses::PackedUses() {
  uses_of_thread = this;
}

PackedUses::~PackedUses() {
  uses_of_thread = nullptr;
}

std::span<const std::byte> PackedConstants::get(const std::string& constant, const std::string& layout,
                                                const Tensor& tensor, size_t bytes,
                                                const std::function<void(const Tensor&, std::byte*)>& pack) {
  const std::span<const std::byte> packed = find_or_pack(constant, layout, tensor, bytes, pack);
  if (uses_of_thread) uses_of_thread->list.push_back({constant, layout, packed});
  return packed;
}

std::span<const std::byte> PackedConstants::find_or_pack(const std::string& constant, const std::string& layout,
                                                         const Tensor& tensor, size_t bytes,
                                                         const std::function<void(const Tensor&, std::byte*)>& pack) {
  {
    const std::lock_guard lock(mutex_);
    const auto it = packed_.find({constant, layout});
    if (it != packed_.end()) {
      if (it->second.bytes.size() != bytes)
        throw Error(ErrorCode::corrupt_engine, fmt::format("constant '{}' in layout '{}' has {} bytes, expected {}",
                                                           constant, layout, it->second.bytes.size(), bytes));
      return it->second.bytes;
    }
  }
  const Tensor raw = tensor.is_elided() ? unpack(constant, tensor) : tensor;
  auto buffer = std::make_shared<AlignedBuffer>(bytes, "packed weights");
  spread_over_nodes(buffer->bytes());
  if (bytes > 0) std::memset(buffer->data(), 0, bytes);
  pack(raw, buffer->data());
  PackedConstant packed{constant, layout, buffer->bytes(), buffer};
  const std::lock_guard lock(mutex_);
  return packed_.try_emplace({constant, layout}, std::move(packed)).first->second.bytes;
}

void PackedConstants::add(PackedConstant packed) {
  const std::lock_guard lock(mutex_);
  std::pair<std::string, std::string> key(packed.constant, packed.layout);
  packed_.insert_or_assign(std::move(key), std::move(packed));
}

Tensor PackedConstants::unpack(const std::string& constant, const Tensor& elided) const {
  std::vector<PackedConstant> forms;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = packed_.lower_bound({constant, ""}); it != packed_.end() && it->first.first == constant; ++it)
      forms.push_back(it->second);
  }
  Tensor rounded;
  for (const PackedConstant& form : forms) {
    if (form.verify) form.verify();
    if (form.layout == fallback_layout) return view_fallback(form, elided);
    Tensor raw = unpack_ ? unpack_(form, elided.dtype(), elided.dims()) : Tensor();
    if (!raw.defined()) continue;
    if (raw.dtype() == elided.dtype()) return raw;
    rounded = std::move(raw);
  }
  if (rounded.defined()) return widened(rounded);
  throw Error(ErrorCode::corrupt_engine, fmt::format("the weights of constant '{}' are missing", constant));
}

std::vector<const PackedConstant*> PackedConstants::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<const PackedConstant*> list;
  for (const auto& [key, packed] : packed_) list.push_back(&packed);
  return list;
}

size_t PackedConstants::total_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& [key, packed] : packed_)
    if (packed.layout != fallback_layout) total += packed.bytes.size();
  return total;
}

}  // namespace camshaft
