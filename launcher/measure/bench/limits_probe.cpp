#include "launcher/measure/bench/limits_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <sstream>
#include <utility>

#include "engine/group/binding.h"
#include "engine/inspect/machine_description.h"
#include "launcher/measure/bench/device_prober.h"

namespace lockstep::launcher {
namespace {

/// Trials of each read kernel, and the number of kernels chosen by them. A kernel's best trial counts, so that one slow
/// moment does not exclude it.
constexpr int kLooks = 2;
constexpr size_t kReadKernels = 3;
constexpr int kReadPasses = 5;

/// One line per figure: begin, end (nanoseconds) and amount.
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

/// The instructions of the backend's kernels; all of the machine's if it does not say.
probe::Instructions instructions_of(const device::Backend& backend) {
  return probe::instructions_of(backend.capabilities().host_instructions).value_or(probe::Instructions::kAll);
}

/// The index of the kernel with this name in a probe: all have `kDotPasses` passes, in order.
size_t kernel_of(const std::vector<probe::Figure>& dots, const std::string& name) {
  const auto found = std::ranges::find(dots, name, &probe::Figure::kernel);
  return static_cast<size_t>(found - dots.begin()) / probe::kDotPasses;
}

}  // namespace

double group_rate(const std::vector<std::string>& owners, const std::vector<probe::Sample>& by_rank) {
  LOCKSTEP_CHECK(owners.size() == by_rank.size(), owners.size(), by_rank.size());
  std::map<std::string_view, std::vector<probe::Sample>> by_owner;
  for (size_t rank = 0; rank < owners.size(); ++rank) by_owner[owners[rank]].push_back(by_rank[rank]);
  double sum = 0;
  for (const auto& [owner, samples] : by_owner) sum += probe::rate(probe::together(samples));
  return sum;
}

Result<LimitsProbe> LimitsProbe::create(group::Member& member, const model::Plan& plan, std::optional<Bytes> bytes,
                                        device::Backend& backend) {
  const bool wants_int8 = inspect::precision_of(plan.model.spec, plan.model.shard.dtype) == probe::Precision::kInt8;
  LOCKSTEP_TRY(
      std::unique_ptr<device::LimitsProbe> probe,
      backend.make_limits_probe({.dtype = plan.model.shard.dtype, .has_int8_weights = wants_int8, .bytes = bytes}));
  if (!probe) return of_hosts(member, plan, bytes, instructions_of(backend));
  std::string precision(probe->precision());
  LimitsProbe limits(member, plan, make_device_prober(std::move(probe), member.clock()));
  for (size_t rank = 0; rank < limits.owners_.size(); ++rank) limits.owners_[rank] += " " + plan.devices.devices[rank];
  limits.precision_name_ = std::move(precision);
  limits.is_of_devices_ = true;
  return limits;
}

Result<LimitsProbe> LimitsProbe::of_hosts(group::Member& member, const model::Plan& plan, std::optional<Bytes> bytes,
                                          probe::Instructions instructions) {
  const device::RankPlace& place = plan.places.at(static_cast<size_t>(member.rank()));
  const probe::Options options{.threads = plan.threads,
                               .per_thread = bytes.value_or(probe::default_per_thread(plan.threads * place.local_size)),
                               .instructions = instructions,
                               .cores = plan.cores};
  LOCKSTEP_TRY(auto prober, probe::Prober::create(options, member.clock()));
  LimitsProbe limits(member, plan, std::move(prober));
  const probe::Precision wanted = inspect::precision_of(plan.model.spec, plan.model.shard.dtype);
  LOCKSTEP_TRY(const auto dots, limits.prober_->multiply(wanted, {}));
  if (!dots.empty()) limits.precision_ = wanted;
  limits.precision_name_ = probe::to_string(limits.precision_);
  return limits;
}

probe::Meet LimitsProbe::meet_of(const Group& group) {
  if (!group.is_all) return {};
  return [this] { return bootstrap_->barrier(); };
}

Result<std::vector<double>> LimitsProbe::rates(const Group& group, const std::vector<probe::Figure>& own) {
  std::vector<double> rates;
  if (!group.is_all) {
    for (const probe::Figure& figure : own) rates.push_back(probe::rate(figure.sample));
    return rates;
  }
  LOCKSTEP_TRY(const auto told, bootstrap_->exchange(to_text(own)));
  std::vector<std::vector<probe::Sample>> by_rank;
  for (const std::string& text : told) {
    by_rank.push_back(parse_samples(text));
    LOCKSTEP_CHECK(by_rank.back().size() == own.size(), by_rank.size() - 1, by_rank.back().size(), own.size());
  }
  for (size_t figure = 0; figure < own.size(); ++figure) {
    std::vector<probe::Sample> samples;
    for (const auto& rank : by_rank) samples.push_back(rank[figure]);
    rates.push_back(group_rate(owners_, samples));
  }
  return rates;
}

Result<void> LimitsProbe::choose_read_kernels(Group& group) {
  std::vector<double> best;  // by kernel
  for (int look = 0; look < kLooks; ++look) {
    LOCKSTEP_TRY(const auto reads, prober_->read(meet_of(group)));
    LOCKSTEP_TRY(const auto reached, rates(group, reads));
    best.resize(reached.size());
    for (size_t kernel = 0; kernel < best.size(); ++kernel) best[kernel] = std::max(best[kernel], reached[kernel]);
  }
  group.read_kernels.resize(best.size());
  std::iota(group.read_kernels.begin(), group.read_kernels.end(), size_t{0});
  std::ranges::stable_sort(group.read_kernels, std::greater(), [&](size_t kernel) { return best[kernel]; });
  group.read_kernels.resize(std::min(kReadKernels, best.size()));
  return ok();
}

void LimitsProbe::Passes::append(const Passes& more) {
  reads.insert(reads.end(), more.reads.begin(), more.reads.end());
  dots.insert(dots.end(), more.dots.begin(), more.dots.end());
}

Result<void> LimitsProbe::take(Group& group) {
  const lockstep::group::BoundThread bound(*cores_);
  if (group.read_kernels.empty()) LOCKSTEP_TRY_VOID(choose_read_kernels(group));
  LOCKSTEP_TRY(group.last.reads, prober_->read_again(group.read_kernels, kReadPasses, meet_of(group)));
  LOCKSTEP_TRY(group.last.dots, prober_->multiply(precision_, meet_of(group)));
  group.passes.append(group.last);
  return ok();
}

Result<void> LimitsProbe::take() { return take(all_); }

/// After the barrier that follows a pass, all ranks begin the next step together.
Result<void> LimitsProbe::take_reads() {
  LOCKSTEP_TRY(auto reads, prober_->read_again(all_.read_kernels, 1, meet_of(all_)));
  all_.passes.append({.reads = std::move(reads), .dots = {}});
  return bootstrap_->barrier();
}

Result<void> LimitsProbe::take_dots() {
  LOCKSTEP_TRY(probe::Figure dot, prober_->multiply_again(precision_, all_.dot_kernel, meet_of(all_)));
  all_.passes.dots.push_back(std::move(dot));
  return bootstrap_->barrier();
}

Result<Limits> LimitsProbe::limits(Group& group) {
  const Passes passes = std::exchange(group.passes, group.last);
  LOCKSTEP_TRY(const auto read_rates, rates(group, passes.reads));
  LOCKSTEP_TRY(const auto dot_rates, rates(group, passes.dots));
  const size_t read = probe::best_median(passes.reads, read_rates);
  const size_t dot = probe::best_median(passes.dots, dot_rates);
  group.dot_kernel = kernel_of(group.last.dots, passes.dots[dot].kernel);
  return Limits{read_rates[read], dot_rates[dot], passes.reads[read].kernel, passes.dots[dot].kernel};
}

Result<Limits> LimitsProbe::limits() { return limits(all_); }

Result<Limits> LimitsProbe::measure_alone() {
  LOCKSTEP_TRY_VOID(take(alone_));
  return limits(alone_);
}

}  // namespace lockstep::launcher
