// What a handle of options holds.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/option_table.h"
#include "api/tensor.h"
#include "base/cancellation.h"
#include "camshaft/camshaft.h"

struct camshaft_cancellation {
  camshaft::Cancellation flag;
};

struct camshaft_workers {
  std::shared_ptr<camshaft::Workers> workers;
};

struct camshaft_options {
  int32_t what = 0;  ///< CAMSHAFT_BUILD, …
  camshaft::api::Settings settings;
  std::vector<std::pair<std::string, camshaft_tensor>> inputs;  ///< what verification inputs of settings.build show
  camshaft_progress_function progress = nullptr;
  void* progress_user = nullptr;
};

namespace camshaft::api {

/// Of options of that kind; the defaults for null. Throws Error(invalid_argument) for options of another kind.
camshaft_options settings_of(const camshaft_options* options, int32_t what);

}  // namespace camshaft::api
