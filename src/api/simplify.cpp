// A model in canonical form.
#include "api/describe.h"
#include "api/options.h"
#include "api/record.h"
#include "api/status.h"
#include "builder/simplify_model.h"

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_simplify_file(const char* path, const char* output, const camshaft_options* options,
                                       int32_t external_data, camshaft_record** report) {
  return guarded([&] {
    RewriteReport done;
    run_with_report(
        report,
        [&] {
          simplify_model(given(path, "path"), given(output, "output"),
                         settings_of(options, CAMSHAFT_BUILD).settings.build, external_data != 0, done);
        },
        [&] { return describe(done); });
  });
}
