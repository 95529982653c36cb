// Weights in the layouts that kernels want.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/tensor.h"

namespace camshaft {

/// The layout of a constant's own bytes, kept beside a packed form from which they do not come back: for machines that
/// want another one.
inline constexpr std::string_view fallback_layout = "raw";

/// One constant in one layout.
struct PackedConstant {
  std::string constant;  ///< name of the graph's value
  std::string layout;    ///< what the backend calls the layout, with all its parameters; unpack() reads it back
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  /// To be called before the bytes are looked at, if there: throws Error(corrupt_engine) when they are not what was
  /// stored.
  std::function<void()> verify = {};
};

/// Throws Error(corrupt_engine): the layout is not one of a tensor of these sizes, or not of as many bytes.
[[noreturn]] void throw_misfit(const PackedConstant& packed, const Dims& dims);

/// A packed constant that a kernel has a view of.
struct PackedUse {
  std::string constant, layout;
  std::span<const std::byte> bytes;
};

/// What PackedConstants::get() gives the calling thread while this lives, of which there is one at a time.
class PackedUses {
 public:
  PackedUses();
  ~PackedUses();
  PackedUses(const PackedUses&) = delete;
  PackedUses& operator=(const PackedUses&) = delete;

  std::vector<PackedUse> list;
};

/// Every packed constant of an engine. While building, kernels pack through it; when an engine is loaded it hands out
/// the packed bytes of the file, and the raw weights need not be there at all.
class PackedConstants {
 public:
  /// The packed form of `tensor` (the constant called `constant`): from the store, or made by `pack` into `bytes` bytes
  /// of zeroed, 64-byte aligned memory. Throws Error(corrupt_engine) when the store has it with another size. Safe to
  /// call from several threads.
  std::span<const std::byte> get(const std::string& constant, const std::string& layout, const Tensor& tensor,
                                 size_t bytes, const std::function<void(const Tensor& raw, std::byte* packed)>& pack);

  /// Adds what a file holds.
  void add(PackedConstant packed);
  /// How elided constants (see Tensor::elided) are recovered from a packed form when another layout is asked for;
  /// undefined for forms that cannot be turned back. Where forms are rounded, to the dtype of what they give, one that
  /// is not is preferred.
  void set_unpack(std::function<Tensor(const PackedConstant&, DType, const Dims&)> unpack) {
    unpack_ = std::move(unpack);
  }
  Tensor unpack(const std::string& constant, const Tensor& elided) const;

  /// In order of constant name, then layout.
  std::vector<const PackedConstant*> all() const;
  /// Of what kernels read: without fallbacks.
  size_t total_bytes() const;

 private:
  mutable std::mutex mutex_;
  std::span<const std::byte> find_or_pack(const std::string& constant, const std::string& layout, const Tensor& tensor,
                                          size_t bytes,
                                          const std::function<void(const Tensor& raw, std::byte* packed)>& pack);

  std::map<std::pair<std::string, std::string>, PackedConstant> packed_;
  std::function<Tensor(const PackedConstant&, DType, const Dims&)> unpack_;
};

}  // namespace camshaft
