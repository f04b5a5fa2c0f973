// A strict reader of this project's subset of Prometheus' text format, for tests.
#pragma once

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace lockstep::trace {

/// Samples by their name and labels as written: `name{a="b"}`; types by family.
struct PrometheusText {
  std::map<std::string, double> samples;
  std::map<std::string, std::string> types;
  std::set<std::string> helped;
};

inline double prometheus_number(const std::string& text) {
  if (text == "+Inf") return std::numeric_limits<double>::infinity();
  size_t read = 0;
  const double value = std::stod(text, &read);
  EXPECT_EQ(read, text.size()) << text;
  return value;
}

/// Every deviation is a failure of the test.
inline PrometheusText read_prometheus(const std::string& text) {
  static const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S.*))"),
      type(R"(# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram))"),
      sample(
          R"(([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_]\w*="(?:[^"\\]|\\[\\"n])*"(?:,[a-zA-Z_]\w*="(?:[^"\\]|\\[\\"n])*")*\})? (\S+))");
  PrometheusText read;
  EXPECT_TRUE(text.ends_with('\n'));
  std::string family;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      family = match[1];
      EXPECT_TRUE(read.helped.insert(family).second) << line;
    } else if (std::regex_match(line, match, type)) {
      EXPECT_EQ(match[1], family) << "TYPE follows its HELP";
      EXPECT_TRUE(read.types.emplace(match[1], match[2]).second) << line;
    } else if (std::regex_match(line, match, sample)) {
      std::string name = match[1];
      if (read.types[family] == "histogram") {
        EXPECT_TRUE(name == family + "_bucket" || name == family + "_sum" || name == family + "_count") << line;
      } else {
        EXPECT_EQ(name, family) << line;
      }
      EXPECT_TRUE(read.types[family] != "counter" || name.ends_with("_total")) << line;
      EXPECT_TRUE(read.samples.emplace(name + match[2].str(), prometheus_number(match[3])).second) << line;
    } else {
      ADD_FAILURE() << "not of the format: " << line;
    }
  }
  return read;
}

}  // namespace lockstep::trace
