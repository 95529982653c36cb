// What makes the providers of sessions.
#pragma once

#include "ort_provider/host.h"

namespace camshaft::ort_provider {

/// One for each time that the library is registered.
class Factory : public EpFactory {
 public:
  explicit Factory(const ort::ApiBase& base);
  const Host& host() const { return host_; }

 private:
  Host host_;
};

}  // namespace camshaft::ort_provider
