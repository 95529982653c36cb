// What makes the providers of sessions.
#pragma once

#include "ort_provider/host.h"

namespace camshaft::ort_provider {

/// One for each ONNX Runtime in the process, as long as that runs: sessions may be freed after the provider was
/// unregistered, and then give back what it made.
class Factory : public EpFactory {
 public:
  /// Throws Error(unsupported) for an ONNX Runtime that is too old.
  static Factory& of(const ort::ApiBase& base);
  const Host& host() const { return host_; }

 private:
  explicit Factory(const ort::ApiBase& base);

  Host host_;
};

}  // namespace camshaft::ort_provider
