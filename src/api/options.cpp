#include "api/options.h"

#include <fmt/format.h>

#include "api/record.h"
#include "api/status.h"
#include "api/tensor.h"

namespace camshaft::api {

namespace {

const char* name_of(int32_t what) {
  switch (what) {
    case CAMSHAFT_BUILD:
      return "a build";
    case CAMSHAFT_CONTEXT:
      return "a context";
    case CAMSHAFT_LOAD:
      return "a load";
    default:
      return "a calibration";
  }
}

void check_kind(const camshaft_options& options, int32_t what) {
  if (options.what != what)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("these are options of {}, not of {}", name_of(options.what), name_of(what)));
}

camshaft_options* build_options(camshaft_options* options) {
  check_kind(*given(options, "options"), CAMSHAFT_BUILD);
  return options;
}

/// Of what makes an engine: a build, or a calibration.
camshaft_options* building_options(camshaft_options* options) {
  if (given(options, "options")->what == CAMSHAFT_CALIBRATION) return options;
  return build_options(options);
}

void set_value(camshaft_options* options, const char* name, OptionKind kind, const nlohmann::json& value) {
  const Option& option = find_option(given(options, "options")->what, given(name, "name"));
  const bool fits = option.kind == kind || (option.kind == OptionKind::number && kind == OptionKind::integer);
  if (!fits)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the option '{}' takes {}, not {}", name, to_string(option.kind), value.dump()));
  option.set(options->settings, value);
}

/// The first of these shapes that names the input; null where none does.
const std::vector<int64_t>* first_of(const std::string& name, std::initializer_list<const camshaft_shapes*> shapes) {
  for (const camshaft_shapes* some : shapes)
    if (some != nullptr)
      if (const auto it = some->dims.find(name); it != some->dims.end()) return &it->second;
  return nullptr;
}

Profile profile_of(const camshaft_shapes* smallest, const camshaft_shapes* optimum, const camshaft_shapes* largest) {
  Profile profile;
  for (const camshaft_shapes* some : {smallest, optimum, largest}) {
    if (some == nullptr) continue;
    for (const auto& [name, dims] : some->dims) {
      ShapeRange& range = profile.inputs[name];
      range.opt = *first_of(name, {optimum, largest, smallest});
      range.min = *first_of(name, {smallest, optimum, largest});
      range.max = *first_of(name, {largest, optimum, smallest});
    }
  }
  return profile;
}

}  // namespace

camshaft_options settings_of(const camshaft_options* options, int32_t what) {
  if (options == nullptr) return {what, {}, {}, nullptr, nullptr};
  check_kind(*options, what);
  camshaft_options own = *options;
  if (own.progress != nullptr)
    own.settings.build.progress = [progress = own.progress, user = own.progress_user](std::string_view stage,
                                                                                      double fraction) {
      if (progress(user, std::string(stage).c_str(), fraction) != 0)
        throw Error(ErrorCode::cancelled, fmt::format("cancelled by the function that is told of progress: {}", stage));
    };
  return own;
}

}  // namespace camshaft::api

using namespace camshaft;
using namespace camshaft::api;

camshaft_status camshaft_cancellation_create(camshaft_cancellation** cancellation) {
  return guarded([&] { give(cancellation, "cancellation", [&] { return new camshaft_cancellation(); }); });
}

void camshaft_cancellation_cancel(camshaft_cancellation* cancellation) {
  cancellation->flag.cancel();
}

int32_t camshaft_cancellation_is_cancelled(const camshaft_cancellation* cancellation) {
  return cancellation->flag.cancelled() ? 1 : 0;
}

void camshaft_cancellation_free(camshaft_cancellation* cancellation) {
  delete cancellation;
}

camshaft_status camshaft_options_create(int32_t what, camshaft_options** options) {
  return guarded([&] {
    options_of(what);
    give(options, "options", [&] { return new camshaft_options{what, {}, {}, nullptr, nullptr}; });
  });
}

camshaft_status camshaft_options_copy(const camshaft_options* options, camshaft_options** copy) {
  return guarded([&] { give(copy, "copy", [&] { return new camshaft_options(*given(options, "options")); }); });
}

void camshaft_options_free(camshaft_options* options) {
  delete options;
}

camshaft_status camshaft_options_set(camshaft_options* options, const char* name, const char* value) {
  return guarded([&] {
    const Option& option = find_option(given(options, "options")->what, given(name, "name"));
    option.set(options->settings, parse_value(option, given(value, "value")));
  });
}

camshaft_status camshaft_options_set_boolean(camshaft_options* options, const char* name, int32_t value) {
  return guarded([&] { set_value(options, name, OptionKind::boolean, value != 0); });
}

camshaft_status camshaft_options_set_integer(camshaft_options* options, const char* name, int64_t value) {
  return guarded([&] { set_value(options, name, OptionKind::integer, value); });
}

camshaft_status camshaft_options_set_number(camshaft_options* options, const char* name, double value) {
  return guarded([&] { set_value(options, name, OptionKind::number, value); });
}

camshaft_status camshaft_options_get(const camshaft_options* options, const char* name, camshaft_record** value) {
  return guarded([&] {
    const Option& option = find_option(given(options, "options")->what, given(name, "name"));
    give(value, "value", [&] { return new_record(option.get(options->settings)); });
  });
}

camshaft_status camshaft_options_list(int32_t what, camshaft_record** list) {
  return guarded([&] {
    nlohmann::json all = nlohmann::json::array();
    for (const Option& option : options_of(what)) {
      all.push_back({{"name", option.name},
                     {"kind", to_string(option.kind)},
                     {"default", option.get({})},
                     {"description", option.description}});
      if (!option.choices.empty())
        all.back()["choices"] = std::vector<std::string>(option.choices.begin(), option.choices.end());
    }
    give(list, "list", [&] { return new_record(std::move(all)); });
  });
}

camshaft_status camshaft_options_add_profile(camshaft_options* options, const camshaft_shapes* smallest,
                                             const camshaft_shapes* optimum, const camshaft_shapes* largest) {
  return guarded(
      [&] { building_options(options)->settings.build.profiles.push_back(profile_of(smallest, optimum, largest)); });
}

camshaft_status camshaft_options_clear_profiles(camshaft_options* options) {
  return guarded([&] { building_options(options)->settings.build.profiles.clear(); });
}

namespace {

// Views of inputs that the options keep.
std::map<std::string, TensorView> keep_inputs(camshaft_options& options, const camshaft_tensors& inputs) {
  std::map<std::string, TensorView> views;
  for (const auto& [name, tensor] : inputs.items) {
    // Where the reference evaluates them.
    options.inputs.emplace_back(name, camshaft::api::host_tensor_of(tensor));
    views[name] = options.inputs.back().second.view;
  }
  return views;
}

}  // namespace

camshaft_status camshaft_options_set_inputs(camshaft_options* options, const camshaft_tensors* inputs) {
  return guarded([&] {
    camshaft_options* build = api::build_options(options);
    build->inputs.clear();
    build->settings.build.further_verification_inputs.clear();
    build->settings.build.verification_inputs = keep_inputs(*build, *given(inputs, "inputs"));
  });
}

camshaft_status camshaft_options_add_inputs(camshaft_options* options, const camshaft_tensors* inputs) {
  return guarded([&] {
    camshaft_options* build = api::build_options(options);
    build->settings.build.further_verification_inputs.push_back(keep_inputs(*build, *given(inputs, "inputs")));
  });
}

camshaft_status camshaft_options_set_progress(camshaft_options* options, camshaft_progress_function progress,
                                              void* user) {
  return guarded([&] {
    camshaft_options* build = building_options(options);
    build->progress = progress;
    build->progress_user = user;
  });
}

camshaft_status camshaft_options_set_cancellation(camshaft_options* options,
                                                  const camshaft_cancellation* cancellation) {
  return guarded(
      [&] { building_options(options)->settings.build.cancellation = given(cancellation, "cancellation")->flag; });
}

camshaft_status camshaft_workers_create(int32_t threads, camshaft_workers** workers) {
  return guarded([&] { give(workers, "workers", [&] { return new camshaft_workers{make_workers(threads)}; }); });
}

void camshaft_workers_free(camshaft_workers* workers) {
  delete workers;
}

camshaft_status camshaft_options_set_workers(camshaft_options* options, const camshaft_workers* workers) {
  return guarded([&] {
    check_kind(*given(options, "options"), CAMSHAFT_CONTEXT);
    options->settings.context.workers = workers == nullptr ? nullptr : workers->workers;
  });
}
