#include "runtime/rank_environment.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace camshaft {

namespace {

int number_of_variable(const char* name) {
  const char* const text = std::getenv(name);
  if (!text)
    throw Error(ErrorCode::invalid_argument,
                fmt::format("the environment has no {}: start the ranks by torchrun, or set RANK, WORLD_SIZE and "
                            "MASTER_PORT as it does",
                            name));
  const std::string_view digits = text;
  int number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (failed != std::errc() || end != digits.data() + digits.size() || number < 0)
    throw Error(ErrorCode::invalid_argument, fmt::format("the environment's {} is '{}', no number", name, text));
  return number;
}

}  // namespace

RankEnvironment rank_environment() {
  RankEnvironment found;
  found.rank = number_of_variable("RANK");
  found.size = number_of_variable("WORLD_SIZE");
  if (std::getenv("LOCAL_WORLD_SIZE") && number_of_variable("LOCAL_WORLD_SIZE") != found.size)
    throw Error(ErrorCode::unsupported, "ranks on several machines: all of WORLD_SIZE must be on one");
  found.name = fmt::format("port-{}", number_of_variable("MASTER_PORT"));
  return found;
}

}  // namespace camshaft
