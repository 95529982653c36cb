// A model with QuantizeLinear and DequantizeLinear.
#include "api/describe.h"
#include "api/options.h"
#include "api/record.h"
#include "api/status.h"
#include "builder/write_quantized_model.h"

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_quantize_file(const char* path, const char* output, const camshaft_options* options,
                                       int32_t external_data, camshaft_record** report) {
  return guarded([&] {
    QuantizeReport done;
    run_with_report(
        report,
        [&] {
          write_quantized_model(given(path, "path"), given(output, "output"),
                                settings_of(options, CAMSHAFT_BUILD).settings.build, external_data != 0, done);
        },
        [&] {
          nlohmann::json described = describe(static_cast<const RewriteReport&>(done));
          described["quantized_layers"] = describe_all(done.quantized_layers);
          described["results_in_steps"] = done.results_in_steps;
          described["results_without_range"] = done.results_without_range;
          return described;
        });
  });
}
