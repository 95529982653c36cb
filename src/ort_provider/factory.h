// What makes the providers of sessions.
#pragma once

#include "ort_provider/host.h"
#include "ort_provider/options.h"

namespace camshaft::ort_provider {

/// Of the provider whose tensors are the host's. There is one for each ONNX Runtime in the process, as long as that
/// runs: sessions may be freed after the provider was unregistered, and then give back what it made.
class Factory : public EpFactory {
 public:
  /// Throws Error(unsupported) for an ONNX Runtime that is too old.
  explicit Factory(const ort::ApiBase& base) : Factory(base, provider_name) {}
  Factory(const Factory&) = delete;
  Factory& operator=(const Factory&) = delete;
  const Host& host() const { return host_; }
  const char* provider() const { return provider_; }

 protected:
  /// Of a provider by another name.
  Factory(const ort::ApiBase& base, const char* provider);

 private:
  Host host_;
  const char* provider_;
};

}  // namespace camshaft::ort_provider
