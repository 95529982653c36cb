#include "server/http/route.h"

#include <gtest/gtest.h>

namespace camshaft::server::route_test {
namespace {

TEST(Route, ModelsWithAndWithoutVersions) {
  const Route infer = parse_route("/v2/models/resnet/infer").value();
  EXPECT_EQ(infer.kind, RouteKind::infer);
  EXPECT_EQ(infer.model, "resnet");
  EXPECT_EQ(infer.version, "");
  EXPECT_TRUE(infer.post);
  EXPECT_FALSE(infer.get);
  const Route version = parse_route("/v2/models/resnet/versions/3/generate_stream?x=1").value();
  EXPECT_EQ(version.kind, RouteKind::generate_stream);
  EXPECT_EQ(version.version, "3");
  EXPECT_EQ(parse_route("/v2/models/a/ready").value().kind, RouteKind::model_ready);
  EXPECT_EQ(parse_route("/v2/models/a/config").value().api, Api::model_config);
  EXPECT_EQ(parse_route("/v2/models/a/stats").value().kind, RouteKind::model_statistics);
  EXPECT_EQ(parse_route("/v2/models/a").value().kind, RouteKind::model_metadata);
  EXPECT_EQ(parse_route("/v2/models/a/trace/setting").value().kind, RouteKind::trace_setting);
  const Route all = parse_route("/v2/models/stats").value();
  EXPECT_EQ(all.kind, RouteKind::model_statistics);
  EXPECT_EQ(all.model, "");
  // A model may be called so; only the bare path is all models.
  EXPECT_EQ(parse_route("/v2/models/stats/infer").value().model, "stats");
}

TEST(Route, OpenAIs) {
  EXPECT_EQ(parse_route("/v1/models").value().kind, RouteKind::openai_models);
  EXPECT_EQ(parse_route("/v1/models/a%20b").value().model, "a b");
  for (const char* action : {"chat/completions", "completions", "responses", "embeddings", "audio/transcriptions",
                             "audio/translations", "load_lora_adapter", "unload_lora_adapter"}) {
    const Route route = parse_route("/v1/" + std::string(action) + "?x=1").value();
    EXPECT_EQ(route.kind, RouteKind::openai_call);
    EXPECT_EQ(route.action, action);
    EXPECT_EQ(route.api, Api::inference);
    EXPECT_TRUE(route.post && !route.get);
  }
  for (const char* path :
       {"/v1", "/v1/", "/v1/chat", "/v1/completions/x", "/v1/models/a/b", "/v10/models", "/v1models"})
    EXPECT_FALSE(parse_route(path).has_value()) << path;
  EXPECT_ANY_THROW(parse_route("/v1/models/.."));
}

TEST(Route, TheServersOwn) {
  EXPECT_EQ(parse_route("/v2").value().kind, RouteKind::server_metadata);
  EXPECT_EQ(parse_route("/v2/").value().kind, RouteKind::server_metadata);
  EXPECT_EQ(parse_route("/v2/health/live").value().kind, RouteKind::live);
  EXPECT_EQ(parse_route("/v2/health/ready").value().kind, RouteKind::ready);
  EXPECT_EQ(parse_route("/v2/logging").value().api, Api::logging);
  EXPECT_EQ(parse_route("/v2/repository/index").value().kind, RouteKind::repository_index);
  EXPECT_EQ(parse_route("/v2/repository/mine/index").value().repository, "mine");
  const Route load = parse_route("/v2/repository/models/a%20b/load").value();
  EXPECT_EQ(load.kind, RouteKind::repository_load);
  EXPECT_EQ(load.model, "a b");
  EXPECT_EQ(parse_route("/v2/repository/mine/models/a/unload").value().repository, "mine");
  const Route region = parse_route("/v2/systemsharedmemory/region/in/register").value();
  EXPECT_EQ(region.region, "in");
  EXPECT_EQ(region.action, "register");
  EXPECT_TRUE(parse_route("/v2/cudasharedmemory/status").value().get);
}

TEST(Route, WhatMeansNothing) {
  for (const char* path : {"",
                           "/",
                           "/v1",
                           "/v2x",
                           "/v2/models",
                           "/v2/models//infer",
                           "/v2/models/a/infer/b",
                           "/v2/models/a/versions",
                           "/v2/models/a/versions/x/infer",
                           "/v2/models/a/versions/-1",
                           "/v2/health",
                           "/v2/health/other",
                           "/v2/repository",
                           "/v2/repository/models/a/reload",
                           "/v2/systemsharedmemory/region/a/b/status",
                           "/v2/systemsharedmemory/erase",
                           "/v2/models/a/versions/123456789012345678901234567890",
                           "*",
                           "http://other/v2",
                           "/metrics"}) {
    const std::optional<Route> route = parse_route(path);
    EXPECT_TRUE(!route || route->kind == RouteKind::status_page) << path;
  }
}

TEST(Route, NamesThatLeadElsewhereAreRefused) {
  for (const char* path : {"/v2/models/%2e%2e/infer", "/v2/models/../infer", "/v2/models/a%2Fb/infer",
                           "/v2/models/a%5cb/config", "/v2/models/a%00/infer", "/v2/models/a%0a/infer",
                           "/v2/models/./infer", "/v2/repository/models/..%2f..%2fetc/load", "/v2/models/%/infer",
                           "/v2/models/%4/infer", "/v2/models/%zz/infer", "/v2/models/a%2"})
    EXPECT_THROW(parse_route(path), ServerError) << path;
  EXPECT_EQ(percent_decoded("%41%5f%c3%a9+"), "A_\xc3\xa9+");
}

}  // namespace
}  // namespace camshaft::server::route_test
