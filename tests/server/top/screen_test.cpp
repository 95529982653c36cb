// The text that `camshaft top` shows.
#include "server/top/screen.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>

namespace camshaft::server::screen_test {
namespace {

ModelFigures model_of(const std::string& name, double rate) {
  ModelFigures model;
  model.name = name;
  model.version = "1";
  model.state = "READY";
  model.loaded = true;
  model.requests_per_second = rate;
  model.p50_us = 1500;
  model.p99_us = 22000;
  model.runs = {{1, 10}, {8, 30}};
  return model;
}

Figures figures_of(std::vector<ModelFigures> models) {
  Figures figures;
  figures.id = "camshaft";
  figures.version = "1.2";
  figures.ready = true;
  figures.uptime_s = 3720;
  figures.machine_cores = 2;
  figures.models = std::move(models);
  return figures;
}

std::vector<std::string> lines_of(const Figures& figures, const ScreenForm& form, const RateHistory& history = {}) {
  std::istringstream text(screen_text(figures, history, form));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

size_t characters(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

TEST(TopScreen, HasALineForEachModel) {
  const auto lines = lines_of(figures_of({model_of("first", 12.5), model_of("second", 0)}), {.columns = 140});
  EXPECT_NE(lines[0].find("camshaft 1.2, ready, up 1 h 2 min"), std::string::npos) << lines[0];
  EXPECT_NE(lines[1].find("12.5 requests/s"), std::string::npos) << lines[1];
  EXPECT_NE(lines[3].find("MODEL"), std::string::npos);
  EXPECT_EQ(lines[4].substr(0, 7), "first 1");
  for (const char* text : {"12.5", "1.50 ms", "22.0 ms", "1:25% 8:75%"})
    EXPECT_NE(lines[4].find(text), std::string::npos) << text << " in " << lines[4];
  EXPECT_EQ(lines.size(), 6);
}

TEST(TopScreen, IsNeverWiderOrHigherThanTheTerminal) {
  std::vector<ModelFigures> models;
  for (int i = 0; i < 50; ++i) models.push_back(model_of("a model with a long näme " + std::to_string(i), i));
  models[3].loaded = false;
  models[3].reason = std::string(500, 'r');
  Figures figures = figures_of(models);
  figures.errors = {{0, std::string(500, 'e')}, {0, "two"}};
  for (const int columns : {1, 20, 40, 80, 200})
    for (const int rows : {1, 5, 10, 24, 100}) {
      const auto lines = lines_of(figures, {.columns = columns, .rows = rows});
      EXPECT_LE(lines.size(), static_cast<size_t>(rows));
      for (const std::string& line : lines) EXPECT_LE(characters(line), static_cast<size_t>(std::max(columns, 20)));
    }
}

TEST(TopScreen, ScrollsAndSaysWhichModelsAreShown) {
  std::vector<ModelFigures> models;
  for (int i = 0; i < 50; ++i) models.push_back(model_of(std::to_string(i), i));
  const auto lines = lines_of(figures_of(models), {.columns = 100, .rows = 15, .first = 20});
  EXPECT_EQ(lines[4].substr(0, 5), "20 1 ");
  EXPECT_NE(lines.back().find("models 21 to 30 of 50"), std::string::npos) << lines.back();
}

TEST(TopScreen, SortsByWhatIsAsked) {
  auto slow = model_of("slow", 1), busy = model_of("busy", 100), waits = model_of("waits", 2);
  slow.p99_us = std::numeric_limits<double>::infinity();
  waits.waiting = 9;
  const auto first = [&](TopOrder order) {
    return lines_of(figures_of({slow, busy, waits}), {.columns = 100, .order = order})[4].substr(0, 4);
  };
  EXPECT_EQ(first(TopOrder::name), "slow");  // as the server has them
  EXPECT_EQ(first(TopOrder::requests), "busy");
  EXPECT_EQ(first(TopOrder::waiting), "wait");
  EXPECT_EQ(first(TopOrder::latency), "slow");
}

TEST(TopScreen, WhatCameFromTheServerDoesNothingToTheTerminal) {
  Figures figures = figures_of({model_of("\x1b[2Jname\n", 1)});
  figures.models[0].loaded = false;
  figures.models[0].reason = "\x07\r";
  figures.id = "\x1b]0;title";
  figures.errors = {{0, "a\x1b[31m\nb"}};
  const std::string text = screen_text(figures, {}, {.columns = 100});
  for (const char c : text) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  EXPECT_NE(text.find("a?[31m?b"), std::string::npos) << text;
}

TEST(TopScreen, HistoryIsOfBlocksOrOfAscii) {
  const RateHistory history = {{"m 1", {0, 50, 100}}};
  const Figures figures = figures_of({model_of("m", 100)});
  EXPECT_NE(screen_text(figures, history, {.columns = 120}).find(" ▄█"), std::string::npos);
  EXPECT_NE(screen_text(figures, history, {.columns = 120, .blocks = false}).find(" -#"), std::string::npos);
}

TEST(TopDuration, HasThreeDigits) {
  EXPECT_EQ(duration_text(std::nullopt), "-");
  EXPECT_EQ(duration_text(36), "36 us");
  EXPECT_EQ(duration_text(1234), "1.23 ms");
  EXPECT_EQ(duration_text(45600), "45.6 ms");
  EXPECT_EQ(duration_text(2.5e6), "2.50 s");
  EXPECT_EQ(duration_text(std::numeric_limits<double>::infinity()), "> 100 s");
}

}  // namespace
}  // namespace camshaft::server::screen_test
