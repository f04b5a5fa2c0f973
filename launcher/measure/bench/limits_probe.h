// The machine's limits as all ranks reach them together.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/plan.h"
#include "launcher/measure/bench/bench_report.h"
#include "runtime/probe/probe.h"

namespace lockstep::launcher {

/// One kernel over all ranks: `by_rank[r]` is what rank r did. Ranks of one host share a clock, so their times are put
/// together; hosts add up.
double group_rate(const std::vector<device::RankPlace>& places, const std::vector<probe::Sample>& by_rank);

class LimitsProbe {
 public:
  /// Fills the buffers of this rank: `per_thread` bytes, or what fits this machine.
  static Result<LimitsProbe> create(group::Member& member, const model::Plan& plan, std::optional<Bytes> per_thread);

  /// The best kernels now, each by the median of a few passes. The same value on every rank. All machines are of one
  /// kind. The first call looks which kernels are worth a second one. @collective @blocking
  Result<Limits> measure() { return measure(all_); }

  /// The same of this rank, whatever the others do. @blocking
  Result<Limits> measure_alone() { return measure(alone_); }

  /// What is multiplied: "int8", "bfloat16" or "float32".
  std::string_view precision() const { return probe::to_string(precision_); }

 private:
  /// Who is measured.
  struct Group {
    bool is_all = false;
    std::vector<size_t> read_kernels = {};  // worth measuring; empty: not known yet
  };

  LimitsProbe(group::Member& member, const model::Plan& plan, std::unique_ptr<probe::Prober> prober)
      : bootstrap_(&member.bootstrap()), places_(&plan.places), prober_(std::move(prober)) {}

  Result<Limits> measure(Group& group);
  Result<void> choose_read_kernels(Group& group);
  /// What all of the group reached together, by figure.
  Result<std::vector<double>> rates(const Group& group, const std::vector<probe::Figure>& own);
  probe::Meet meet_of(const Group& group);

  transport::Bootstrap* bootstrap_;
  const std::vector<device::RankPlace>* places_;
  std::unique_ptr<probe::Prober> prober_;
  probe::Precision precision_ = probe::Precision::kFloat32;
  Group all_{.is_all = true}, alone_;
};

/// The mean of two measurements; kernels are those of `after`.
Limits mean_of(const Limits& before, const Limits& after);

}  // namespace lockstep::launcher
