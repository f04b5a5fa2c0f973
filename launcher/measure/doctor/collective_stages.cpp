// The data plane: correctness and speed of each communicator for the launch.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "engine/group/agreement.h"
#include "engine/group/communicators.h"
#include "launcher/measure/doctor/stages.h"
#include "runtime/core/ids.h"
#include "runtime/core/short_number.h"
#include "transport/collective_probe.h"
#include "transport/shm/shm.h"

namespace lockstep::launcher {
namespace {

using transport::Collective;
using Made = Result<std::unique_ptr<device::Communicator>>;

constexpr std::array<int64_t, 7> kSizes = {8, 1 << 10, 1 << 13, 1 << 16, 1 << 18, 1 << 20, 1 << 22};
constexpr int kBatch = 10;         // samples between two clock readings
constexpr int kMostSamples = 200;  // enough for a 99th percentile
constexpr double kBudget = 0.06;   // seconds of one size and collective
constexpr double kQuickBudget = 0.02;

/// Whether rank 0 has time for more samples; rank 0's answer on every rank.
Result<bool> go_on(device::Communicator& way, bool mine) {
  std::byte word = static_cast<std::byte>(mine);
  LOCKSTEP_TRY_VOID(way.broadcast(std::span(&word, 1), /*root=*/0, device::Stream::host()));
  return word != std::byte{0};
}

/// Seconds of a collective, in ascending order.
Result<std::vector<double>> samples_of(const DoctorRank& rank, transport::CollectiveProbe& probe,
                                       device::Communicator& way, Collective collective, int64_t bytes) {
  std::vector<double> samples;
  const std::array one = {collective};
  LOCKSTEP_TRY_VOID(probe.time(way, one, bytes, /*repeats=*/1));  // a warm-up
  const Deadline budget(rank.member.clock(), duration_of(rank.command.quick ? kQuickBudget : kBudget));
  for (bool more = true; more && std::ssize(samples) < kMostSamples;) {
    for (int i = 0; i < kBatch; ++i) {
      LOCKSTEP_TRY(const double seconds, probe.time(way, one, bytes, transport::timed_together(bytes)));
      samples.push_back(seconds);
    }
    LOCKSTEP_TRY(more, go_on(way, !budget.has_passed()));
  }
  std::ranges::sort(samples);
  return samples;
}

Result<void> measure(DoctorRank& rank, device::Communicator& way) {
  transport::CollectiveProbe probe(way.size(), kSizes.back(), rank.member.clock());
  for (const int64_t bytes : kSizes) {
    for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather}) {
      LOCKSTEP_TRY(const auto samples, samples_of(rank, probe, way, collective, bytes));
      const size_t last = samples.size() - 1;
      rank.report.collectives.push_back({.communicator = way.name(),
                                         .operation = std::string(transport::to_string(collective)),
                                         .bytes = bytes,
                                         .median_us = samples[last / 2] * 1e6,
                                         .p99_us = samples[last * 99 / 100] * 1e6});
    }
  }
  return ok();
}

/// The measurements of `name`, one line per size.
std::string table_of(const DoctorReport& report, const std::string& name) {
  std::string text = fmt::format("{:>10} {:>29} {:>29}\n", "", "all-reduce median, 99 %", "all-gather");
  for (const int64_t bytes : kSizes) {
    std::string line = fmt::format("{:>10}", to_string(Bytes(bytes)));
    for (const CollectiveFigure& figure : report.collectives) {
      if (figure.communicator != name || figure.bytes != bytes) continue;
      line += figure.operation == "all_reduce"
                  ? fmt::format(" {:>11.1f} us {:>9.1f} us", figure.median_us, figure.p99_us)
                  : fmt::format(" {:>11.1f} us {:>8.3f} GB/s", figure.median_us, figure.bytes_per_s() / 1e9);
    }
    text += line + "\n";
  }
  return text;
}

Result<Check> check_way(DoctorRank& rank, Made made) {
  transport::Bootstrap& bootstrap = rank.member.bootstrap();
  LOCKSTEP_TRY_VOID(
      group::all_succeeded(bootstrap, made.has_value() ? Result<void>(ok()) : Result<void>(made.error())));
  device::Communicator& way = *made.value();
  LOCKSTEP_TRY_VOID(group::all_succeeded(bootstrap, transport::check_collectives(way)));
  LOCKSTEP_TRY_VOID(measure(rank, way));
  Check check;
  const auto& figures = rank.report.collectives;
  const auto smallest = std::ranges::find(figures, way.name(), &CollectiveFigure::communicator);
  check.found = fmt::format("results are right; all-reduce {} us at 8 bytes, all-gather {} GB/s at 4 MiB",
                            short_number(smallest->median_us), short_number(figures.back().bytes_per_s() / 1e9));
  check.table = table_of(rank.report, way.name());
  return check;
}

template <typename Kind>
Made as_communicator(Result<std::unique_ptr<Kind>> made) {
  if (!made.has_value()) return made.error();
  return std::unique_ptr<device::Communicator>(std::move(made).value());
}

/// Why no ranks can share memory; empty if some can.
std::string no_shared_memory(const DoctorRank& rank) {
  return rank.passed("shared memory") ? "" : "there is no shared memory, see above";
}

}  // namespace

Result<Check> run_loopback(DoctorRank& rank) {
  if (!rank.has_threads()) return skipped_check("the ranks are processes");
  if (rank.size() == 1) return skipped_check("one rank");
  return check_way(rank, transport::loopback::make_communicator(rank.member.group().threads(), rank.rank(),
                                                                rank.member.wait_options()));
}

Result<Check> run_shm(DoctorRank& rank) {
  if (rank.size() == 1) return skipped_check("one rank");
  if (!device::on_one_host(rank.plan.places)) return skipped_check("the ranks are on several hosts");
  if (std::string why = no_shared_memory(rank); !why.empty()) return skipped_check(std::move(why));
  return check_way(
      rank, as_communicator(transport::shm::make_communicator(rank.member.bootstrap(), rank.member.wait_options())));
}

Result<Check> run_mpi(DoctorRank& rank) {
  if (rank.has_threads()) return skipped_check("the ranks are threads of one process");
  if (rank.size() == 1) return skipped_check("one rank");
  return check_way(rank, as_communicator(rank.member.group().meeting()->make_communicator(
                             rank.plan.places, rank.member.wait_options(), {})));
}

Result<Check> run_two_level(DoctorRank& rank) {
  const std::vector<device::RankPlace>& places = rank.plan.places;
  if (device::on_one_host(places)) return skipped_check("the ranks are on one host");
  const bool is_shared = std::ranges::any_of(places, [](const auto& place) { return place.local_size > 1; });
  if (!is_shared) return skipped_check("no host has two ranks");
  if (std::string why = no_shared_memory(rank); !why.empty()) return skipped_check(std::move(why));
  return check_way(rank, group::make_two_level(rank.member, places));
}

}  // namespace lockstep::launcher
