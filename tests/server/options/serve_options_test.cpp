#include "server/options/serve_options.h"

#include <gtest/gtest.h>

#include <set>

#include "server/options/flag.h"

namespace camshaft::server::serve_options_test {
namespace {

ServeOptions parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "--model-repository=/models");
  return parse_command_line(arguments);
}

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    parse(arguments);
    return "";
  } catch (const OptionError& error) {
    return error.what();
  }
}

TEST(ServeOptions, TakesBothForms) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--http-port=9", "--allow-grpc=0", "--id=me"},
        std::vector<std::string>{"--http-port", "9", "--allow-grpc", "false", "--id", "me"}}) {
    const ServeOptions options = parse(arguments);
    EXPECT_EQ(options.http.port, 9);
    EXPECT_FALSE(options.allow_grpc);
    EXPECT_EQ(options.server.id, "me");
    EXPECT_EQ(options.server.models.repositories.front(), "/models");
  }
  EXPECT_TRUE(parse({"--allow-client-shm", "--http-port=1"}).server.allow_client_shared_memory);
}

TEST(ServeOptions, OnlyThisMachineUnlessAsked) {
  EXPECT_EQ(parse({}).http.address, "127.0.0.1");
  EXPECT_EQ(parse({}).grpc.address, "127.0.0.1");
  EXPECT_TRUE(parse({"--http-address=0.0.0.0"}).http_address_given);
}

TEST(ServeOptions, NamesWhatWasMeant) {
  EXPECT_NE(refusal({"--model-repositry=x"}).find("did you mean --model-repository?"), std::string::npos);
  EXPECT_NE(refusal({"--gprc-port=1"}).find("did you mean --grpc-port?"), std::string::npos);
  EXPECT_NE(refusal({"models"}).find("unexpected argument 'models'"), std::string::npos);
}

TEST(ServeOptions, RefusesValuesThatAreNone) {
  for (const char* argument :
       {"--http-port=65536", "--http-port=-1", "--http-port=x", "--http-port", "--allow-http=maybe",
        "--model-control-mode=all", "--cache-config=redis,host=x", "--cache-config=local", "--rate-limit=on",
        "--rate-limit-resource=R", "--rate-limit-resource=R:x", "--trace-config=speed=1", "--metrics-config=nothing=1"})
    EXPECT_NE(refusal({argument}), "") << argument;
  EXPECT_NE(refusal({"--allow-http=false", "--allow-grpc=false"}), "");
  EXPECT_NE(refusal({"--load-model=*", "--load-model=a"}), "");
  EXPECT_THROW(parse_command_line({}), OptionError);
}

TEST(ServeOptions, SettingsOfSeveralParts) {
  const ServeOptions options =
      parse({"--cache-config=local,size=1048576", "--rate-limit=execution_count", "--rate-limit-resource=R:4:1",
             "--rate-limit-resource=Q:2", "--trace-config=triton,file=/tmp/t", "--trace-config=level=TIMESTAMPS",
             "--trace-config", "rate=7", "--model-control-mode=explicit", "--load-model=a", "--load-model=b"});
  EXPECT_EQ(options.server.models.cache_bytes, 1048576);
  EXPECT_TRUE(options.server.models.rate_limit);
  EXPECT_EQ(options.server.models.rate_limit_resources.at({"R", 1}), 4);
  EXPECT_EQ(options.server.models.rate_limit_resources.at({"Q", -1}), 2);
  EXPECT_EQ(options.server.trace.file, "/tmp/t");
  EXPECT_EQ(options.server.trace.level, std::vector<std::string>{"TIMESTAMPS"});
  EXPECT_EQ(options.server.trace.rate, 7);
  EXPECT_EQ(options.server.models.startup_models.size(), 2);
}

TEST(ServeOptions, WhatHasNoEffectIsSaid) {
  const ServeOptions options = parse({"--pinned-memory-pool-byte-size", "100", "--backend-directory=/x"});
  EXPECT_EQ(options.notes.size(), 2);
}

TEST(ServeOptions, TheHelpHasEveryFlagOnce) {
  const std::string help = help_text();
  std::set<std::string> names;
  for (const Flag& flag : flags()) {
    EXPECT_NE(help.find("--" + flag.name), std::string::npos) << flag.name;
    EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
    EXPECT_FALSE(flag.help.empty()) << flag.name;
  }
  for (const IgnoredFlag& flag : ignored_flags()) EXPECT_TRUE(names.insert(flag.name).second) << flag.name;
}

}  // namespace
}  // namespace camshaft::server::serve_options_test
