// From an ONNX model to an engine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "camshaft/camshaft.h"
#include "camshaft/engine.hpp"
#include "camshaft/network.hpp"
#include "camshaft/options.hpp"
#include "camshaft/report.hpp"

namespace camshaft {
inline namespace v1 {

/// Compiles models.
class Builder {
 public:
  explicit Builder(BuildOptions options = {}) : options_(std::move(options)) {}

  /// Reads an ONNX file (and its external data) and compiles it. Throws Error: io, invalid_model, unsupported (naming
  /// every node that is missing), verification_failed (naming the first layer that diverges), cancelled, out_of_memory,
  /// invalid_argument (options that contradict each other, a lock file that does not fit, a damaged timing cache; an
  /// engine that cannot be verified without inputs that are given).
  Engine build(const std::string& model_path) {
    return finish([&](camshaft_engine** engine, camshaft_record** report) {
      return camshaft_build_file(model_path.c_str(), options_.handle(), engine, report);
    });
  }
  /// The same of a model in memory. `folder` has its external data; empty: it has none. `name` stands for the path in
  /// messages and in the engine's metadata.
  Engine build(std::span<const std::byte> model, const std::string& name = "model.onnx",
               const std::string& folder = "") {
    return finish([&](camshaft_engine** engine, camshaft_record** report) {
      return camshaft_build_memory(model.data(), model.size(), name.c_str(), folder.empty() ? nullptr : folder.c_str(),
                                   options_.handle(), engine, report);
    });
  }
  /// The same of a network, which may be changed afterwards.
  Engine build(const Network& network) {
    return finish([&](camshaft_engine** engine, camshaft_record** report) {
      return camshaft_build_network(network.handle(), options_.handle(), engine, report);
    });
  }
  /// Of the last build that came to an end, be it that verification failed.
  const BuildReport& report() const { return report_; }

 private:
  template <class Build>
  Engine finish(const Build& build) {
    camshaft_engine* engine = nullptr;
    camshaft_record* report = nullptr;
    const camshaft_status status = build(&engine, &report);
    report_ = report == nullptr ? BuildReport() : detail::build_report(Record(report));
    if (status == CAMSHAFT_CANCELLED) options_.rethrow();
    detail::check(status);
    return Engine(engine);
  }

  BuildOptions options_;
  BuildReport report_;
};

}  // namespace v1
}  // namespace camshaft
