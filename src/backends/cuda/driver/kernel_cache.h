// Machine code that has been compiled before.
#pragma once

#include <string>

#include "backends/cuda/driver/compiler.h"

namespace camshaft::cuda {

/// Cubins in a folder, one file each, named after a hash of the text, the architecture and the compiler's version. The
/// file has all of these inside, too: one that was copied or put there under another's name is compiled anew, as is a
/// damaged one. A folder or file that belongs to another user, or that others may write, is not used, with one warning
/// of the folder. What cannot be read or written costs time and nothing else. Safe to use from several threads and
/// processes.
class KernelCache {
 public:
  /// Empty: nothing is kept.
  explicit KernelCache(std::string folder) : folder_(std::move(folder)) {}
  /// The cubin of `source`, from the folder or compiled now. Throws as Compiler::compile() does.
  Cubin get(const Compiler& compiler, const KernelSource& source) const;

  /// $XDG_CACHE_HOME/camshaft/kernels, or that below ~/.cache; empty where neither is known.
  static std::string default_folder();

 private:
  std::string folder_;
};

}  // namespace camshaft::cuda
