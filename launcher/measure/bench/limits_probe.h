// Measurement of the machine's limits by all ranks together, between their steps.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/plan.h"
#include "launcher/measure/bench/bench_report.h"
#include "runtime/device/backend.h"
#include "runtime/probe/probe.h"

namespace lockstep::launcher {

/// The rate of one kernel over all ranks: `by_rank[r]` is rank r's sample, `owners[r]` names what it measured, a host
/// or a device. Ranks with one owner share its limits and a clock, so their times are combined; the rates of owners add
/// up.
double group_rate(const std::vector<std::string>& owners, const std::vector<probe::Sample>& by_rank);

/// Measures the limits close in time to the steps, on the backend's devices or with the instructions that it uses:
//
//   take ─► step … take_dots … step … take_reads … step ─► take ─► limits
//
// Each `take` runs a few passes of the best kernels. The median of all passes since the last but one `take` counts.
class LimitsProbe {
 public:
  /// Of the devices where the backend computes, or of the hosts: fills the buffers of this rank, `bytes` (of each
  /// thread on a host), or a size that fits. @blocking
  static Result<LimitsProbe> create(group::Member& member, const model::Plan& plan, std::optional<Bytes> bytes,
                                    device::Backend& backend);
  static Result<LimitsProbe> of_hosts(group::Member& member, const model::Plan& plan, std::optional<Bytes> bytes,
                                      probe::Instructions instructions);

  /// Runs all kernels together with the other ranks. The first call chooses the kernels. @collective @blocking
  Result<void> take();
  /// One pass of the best read kernels, and one of the best dot kernel, between two steps. @collective @blocking
  Result<void> take_reads();
  Result<void> take_dots();
  /// The limits from all passes since the last but one `take`. The same value on every rank. Assumes machines of one
  /// kind. @collective @blocking
  Result<Limits> limits();

  /// `take` and `limits` of this rank alone. @blocking
  Result<Limits> measure_alone();

  /// The data type of the products: "int8", "bfloat16", "float16" or "float32".
  const std::string& precision() const { return precision_name_; }
  /// Whether the limits are those of devices beside the hosts.
  bool is_of_devices() const { return is_of_devices_; }

 private:
  struct Passes {
    std::vector<probe::Figure> reads, dots;

    void append(const Passes& more);
  };
  /// The ranks that are measured together.
  struct Group {
    bool is_all = false;
    std::vector<size_t> read_kernels = {};  // worth measuring; empty: not known yet
    size_t dot_kernel = 0;                  // the best of the last limits
    Passes passes = {};                     // since the last but one `take`
    Passes last = {};                       // of the last `take`
  };

  LimitsProbe(group::Member& member, const model::Plan& plan, std::unique_ptr<probe::Prober> prober)
      : bootstrap_(&member.bootstrap()), cores_(&plan.cores), prober_(std::move(prober)) {
    for (const device::RankPlace& place : plan.places) owners_.push_back(device::machine_of(place));
  }

  Result<void> take(Group& group);
  Result<Limits> limits(Group& group);
  Result<void> choose_read_kernels(Group& group);
  /// The rates that the group reached together, by figure.
  Result<std::vector<double>> rates(const Group& group, const std::vector<probe::Figure>& own);
  probe::Meet meet_of(const Group& group);

  transport::Bootstrap* bootstrap_;
  std::vector<std::string> owners_;  // by rank
  const std::vector<int>* cores_;
  std::unique_ptr<probe::Prober> prober_;
  probe::Precision precision_ = probe::Precision::kFloat32;
  std::string precision_name_;
  bool is_of_devices_ = false;
  Group all_{.is_all = true}, alone_;
};

}  // namespace lockstep::launcher
