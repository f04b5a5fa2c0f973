#include "runtime/trace/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace lockstep::trace {
namespace {

/// HELP escapes backslash and line feed; label values escape the double quote, too.
std::string escaped(std::string_view text, bool is_label) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\') {
      escaped += "\\\\";
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (c == '"' && is_label) {
      escaped += "\\\"";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);  // the shortest text that parses to the same number
}

std::string to_text(const Labels& labels) {
  std::string text;
  for (const auto& [name, value] : labels) {
    text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name, escaped(value, true));
  }
  return text.empty() ? "" : "{" + text + "}";
}

}  // namespace

void Histogram::observe(double value) {
  const auto bound = std::ranges::lower_bound(bounds_, value);
  ++counts_[static_cast<size_t>(bound - bounds_.begin())];
  sum_ += value;
}

std::vector<Sample> Histogram::samples(const Labels& labels) const {
  std::vector<Sample> samples;
  int64_t below = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    below += counts_[i];
    Labels bucket = labels;
    bucket.emplace_back("le", i < bounds_.size() ? number(bounds_[i]) : "+Inf");
    samples.push_back({std::move(bucket), static_cast<double>(below), "_bucket"});
  }
  samples.push_back({labels, sum_, "_sum"});
  samples.push_back({labels, static_cast<double>(below), "_count"});
  return samples;
}

std::string to_prometheus(const std::vector<MetricFamily>& families) {
  std::string text;
  for (const MetricFamily& family : families) {
    if (family.samples.empty()) continue;
    text +=
        fmt::format("# HELP {} {}\n# TYPE {} {}\n", family.name, escaped(family.help, false), family.name, family.type);
    for (const Sample& sample : family.samples) {
      text += fmt::format("{}{}{} {}\n", family.name, sample.suffix, to_text(sample.labels), number(sample.value));
    }
  }
  return text;
}

}  // namespace lockstep::trace
