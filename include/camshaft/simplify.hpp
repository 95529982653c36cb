// From an ONNX model to a simpler one.
#pragma once

#include <string>

#include "camshaft/camshaft.h"
#include "camshaft/options.hpp"
#include "camshaft/report.hpp"

namespace camshaft {
inline namespace v1 {

/// Writes a model in canonical form: constants and shape arithmetic folded, what changes nothing removed, in ONNX's own
/// operators. Profiles of the options fix the sizes that all of them give. An engine of the new model is verified
/// against the old one, unless "verify" is off; nothing is written where that fails. `external_data` puts tensors of at
/// least 1 KiB into the file "<output>.data"; models above 2 GiB always do so. Throws what Builder::build() throws, and
/// Error(unsupported) naming a node that ONNX has no operators for.
inline RewriteReport simplify(const std::string& model_path, const std::string& output_path,
                              const BuildOptions& options = {}, bool external_data = false) {
  camshaft_record* handle = nullptr;
  const camshaft_status status =
      camshaft_simplify_file(model_path.c_str(), output_path.c_str(), options.handle(), external_data ? 1 : 0, &handle);
  const Record record(handle);
  if (status == CAMSHAFT_CANCELLED) options.rethrow();
  detail::check(status);
  return detail::rewrite_report(record);
}

}  // namespace v1
}  // namespace camshaft
