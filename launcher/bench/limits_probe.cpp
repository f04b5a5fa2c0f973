#include "launcher/bench/limits_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "launcher/ranks/serving_spec.h"

namespace lockstep::launcher {
namespace {

/// A line for each kernel: begin, end (nanoseconds) and amount.
std::string to_text(const std::vector<probe::Figure>& figures) {
  std::string text;
  for (const probe::Figure& figure : figures) {
    text += fmt::format("{} {} {:.17g}\n", figure.sample.begin.time_since_epoch().count(),
                        figure.sample.end.time_since_epoch().count(), figure.sample.amount);
  }
  return text;
}

std::vector<probe::Sample> parse_samples(const std::string& text) {
  std::vector<probe::Sample> samples;
  std::istringstream lines(text);
  int64_t begin = 0, end = 0;
  for (double amount = 0; lines >> begin >> end >> amount;) {
    samples.push_back({TimePoint(Duration(begin)), TimePoint(Duration(end)), amount});
  }
  return samples;
}

}  // namespace

double group_rate(const std::vector<transport::RankPlace>& places, const std::vector<probe::Sample>& by_rank) {
  LOCKSTEP_CHECK(places.size() == by_rank.size(), places.size(), by_rank.size());
  std::map<std::string, std::vector<probe::Sample>> by_host;
  for (size_t rank = 0; rank < places.size(); ++rank)
    by_host[transport::machine_of(places[rank])].push_back(by_rank[rank]);
  double sum = 0;
  for (const auto& [host, samples] : by_host) sum += probe::rate(probe::together(samples));
  return sum;
}

Result<LimitsProbe> LimitsProbe::create(const RankContext& context, const Plan& plan, std::optional<Bytes> per_thread) {
  const transport::RankPlace& place = plan.places.at(static_cast<size_t>(context.bootstrap.rank()));
  const probe::Options options{
      .threads = plan.threads,
      .per_thread = per_thread.value_or(probe::default_per_thread(plan.threads * place.local_size))};
  LOCKSTEP_TRY(auto prober, probe::Prober::create(options, context.clock));
  LimitsProbe limits(context, plan, std::move(prober));
  const probe::Precision wanted = precision_of(plan.model.spec, plan.model.shard.dtype);
  LOCKSTEP_TRY(const auto dots, limits.prober_->multiply(wanted, {}));
  if (!dots.empty()) limits.precision_ = wanted;
  return limits;
}

Result<LimitsProbe::Best> LimitsProbe::best_of_group(const std::vector<probe::Figure>& own) {
  LOCKSTEP_TRY(const auto told, bootstrap_->exchange(to_text(own)));
  std::vector<std::vector<probe::Sample>> by_rank;
  for (const std::string& text : told) {
    by_rank.push_back(parse_samples(text));
    LOCKSTEP_CHECK(by_rank.back().size() == own.size(), by_rank.size() - 1, by_rank.back().size(), own.size());
  }
  Best best;
  for (size_t kernel = 0; kernel < own.size(); ++kernel) {
    std::vector<probe::Sample> samples;
    for (const auto& rank : by_rank) samples.push_back(rank[kernel]);
    const double rate = group_rate(*places_, samples);
    if (rate > best.rate) best = {rate, own[kernel].kernel};
  }
  return best;
}

Result<Limits> LimitsProbe::measure() {
  const probe::Meet meet = [this] { return bootstrap_->barrier(); };
  LOCKSTEP_TRY(const auto reads, prober_->read(meet));
  LOCKSTEP_TRY(const Best read, best_of_group(reads));
  LOCKSTEP_TRY(const auto dots, prober_->multiply(precision_, meet));
  LOCKSTEP_TRY(const Best dot, best_of_group(dots));
  return Limits{read.rate, dot.rate, read.kernel, dot.kernel};
}

Result<Limits> LimitsProbe::measure_alone() {
  LOCKSTEP_TRY(const auto reads, prober_->read({}));
  LOCKSTEP_TRY(const auto dots, prober_->multiply(precision_, {}));
  Limits limits;
  for (const probe::Figure& figure : reads) {
    limits.read_bytes_per_s = std::max(limits.read_bytes_per_s, probe::rate(figure.sample));
  }
  for (const probe::Figure& figure : dots) {
    limits.flops_per_s = std::max(limits.flops_per_s, probe::rate(figure.sample));
  }
  return limits;
}

Limits mean_of(const Limits& before, const Limits& after) {
  Limits mean = after;
  mean.read_bytes_per_s = (before.read_bytes_per_s + after.read_bytes_per_s) / 2;
  mean.flops_per_s = (before.flops_per_s + after.flops_per_s) / 2;
  return mean;
}

}  // namespace lockstep::launcher
