// Metrics in Prometheus' text exposition format, version 0.0.4
// (https://prometheus.io/docs/instrumenting/exposition_formats/), as read by node_exporter's textfile collector.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lockstep::trace {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// One value of a family. `suffix` is "_bucket", "_sum" or "_count" in a histogram, else empty.
struct Sample {
  Labels labels;
  double value = 0.0;
  std::string suffix = "";
};

/// All metrics with one name.
struct MetricFamily {
  std::string name;
  std::string help;
  std::string type;  // "counter", "gauge" or "histogram"
  std::vector<Sample> samples;
};

/// Counts of values by upper bound, and their sum.
class Histogram {
 public:
  /// `bounds` ascend.
  explicit Histogram(std::vector<double> bounds) : bounds_(std::move(bounds)), counts_(bounds_.size() + 1) {}

  void observe(double value);
  /// The samples of a family: cumulative buckets, sum and count.
  std::vector<Sample> samples(const Labels& labels = {}) const;

 private:
  std::vector<double> bounds_;
  std::vector<int64_t> counts_;  // [bounds + 1], not cumulative
  double sum_ = 0.0;
};

/// HELP, TYPE and samples of every family that has samples. Pure.
std::string to_prometheus(const std::vector<MetricFamily>& families);

}  // namespace lockstep::trace
