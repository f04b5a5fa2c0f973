// All-reduce of a decode step, alternating with MPI_Allreduce on the same buffers. Run by hand:
//
//   mpirun --bind-to core -n 2 build/release/bin/collective_benchmark [--rounds N] [--way auto|shm|past-cache]
//                                                                     [--roots lent|own] [--json F]
//
// A round is: work (reads memory of its own, writes the source from the last result) │ meet │ ours │ work │ meet │
// MPI's. The measured time is the slowest rank's, from the end of the barrier to its result. Our source is in the
// communicator's buffer, like a product's sums in a step, or with `--roots own` in MPI's; the cost to write there is
// seen in the time of the work. Sizes are those of the result; the ratio is that of medians in blocks of rounds, as
// median (least … most).
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "engine/group/binding.h"
#include "engine/group/communicators.h"
#include "engine/group/rank_threads.h"
#include "runtime/core/abort_flag.h"
#include "runtime/trace/recorded_communicator.h"
#include "transport/mpi/mpi.h"

namespace lockstep {
namespace {

constexpr int kBlocks = 7;
constexpr size_t kOwnBytes = 512 * 1024;  // read between two collectives to evict the L1 cache

struct Settings {
  int rounds = 1400;  // of all blocks
  std::string json;
  std::string way = "auto";  // as --communicator, or "past-cache"
  bool lends_roots = true;
};

/// The work of a step between two collectives.
class Work {
 public:
  Work() : own_(kOwnBytes / sizeof(float), 1.0f) {}

  void run(std::span<const float> result, std::span<float> src) {
    float sum = 0;
    for (size_t i = 0; i < own_.size(); i += 16) sum += own_[i];
    for (size_t i = 0; i < src.size(); ++i) src[i] = 0.25f * result[i] + static_cast<float>(i % 7);
    own_[0] = sum > 0 ? 1.0f : 2.0f;
  }

 private:
  std::vector<float> own_;
};

/// Buffers begin cache lines, as in a step.
struct alignas(64) Line {
  float floats[16] = {};
};

/// Seconds of each round, of the slowest rank.
struct Samples {
  std::vector<double> ours, mpi;
  std::vector<double> ours_work, mpi_work;  // before them
};

class Measurement {
 public:
  /// Ranks meet by `meeting`: a collective of `communicator` between the work and the sum would take the roots' place.
  Measurement(device::Communicator& communicator, device::Communicator& meeting, int64_t bytes, bool lends_roots)
      : communicator_(communicator),
        meeting_(meeting),
        lends_roots_(lends_roots),
        sum_(split_of(communicator.size())),
        memory_(2 * static_cast<size_t>(bytes) / sizeof(Line)),
        src_(memory_.front().floats, static_cast<size_t>(bytes) / sizeof(float)),
        dst_(memory_[memory_.size() / 2].floats, src_.size()) {}

  Result<Samples> run(int rounds) {
    Samples samples;
    for (int round = -20; round < rounds; ++round) {  // the first ones warm up
      const std::span<float> place = lends_roots_ ? communicator_.place_for_roots(sum_, src_.size()) : src_;
      const std::span<float> roots = place.empty() ? src_ : place;
      LOCKSTEP_TRY(const Times ours, timed(roots, [&]() -> Result<void> {
                     return communicator_.all_reduce(sum_, roots, dst_, device::Stream::host());
                   }));
      LOCKSTEP_TRY(const Times mpi, timed(src_, [&]() -> Result<void> {
                     MPI_Allreduce(src_.data(), dst_.data(), static_cast<int>(src_.size()), MPI_FLOAT, MPI_SUM,
                                   MPI_COMM_WORLD);
                     return ok();
                   }));
      if (round < 0) continue;
      samples.ours.push_back(ours.collective);
      samples.mpi.push_back(mpi.collective);
      samples.ours_work.push_back(ours.work);
      samples.mpi_work.push_back(mpi.work);
    }
    for (std::vector<double>* each : {&samples.ours, &samples.mpi, &samples.ours_work, &samples.mpi_work}) {
      MPI_Allreduce(MPI_IN_PLACE, each->data(), static_cast<int>(each->size()), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    }
    return samples;
  }

 private:
  static BlockSplit split_of(int ranks) {
    BlockSplit split;
    for (int64_t leaf = 0; leaf <= ranks; ++leaf) split.bounds.push_back(leaf);
    return split;
  }

  /// Seconds.
  struct Times {
    double work = 0;
    double collective = 0;
  };

  template <typename Collective>
  Result<Times> timed(std::span<float> src, Collective collective) {
    const TimePoint start = clock_.now();
    work_.run(dst_, src);
    const double work = to_seconds(clock_.now() - start);
    LOCKSTEP_TRY_VOID(meeting_.barrier(device::Stream::host()));
    const TimePoint begin = clock_.now();
    LOCKSTEP_TRY_VOID(collective());
    return Times{work, to_seconds(clock_.now() - begin)};
  }

  device::Communicator& communicator_;
  device::Communicator& meeting_;
  const bool lends_roots_;
  const SteadyClock clock_;
  const device::TreeSum sum_;
  Work work_;
  std::vector<Line> memory_;  // of both
  std::span<float> src_, dst_;
};

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

nlohmann::ordered_json summary_of(int64_t bytes, const Samples& samples) {
  std::vector<double> ratios;
  const size_t block = samples.ours.size() / kBlocks;
  const auto middle = [&](const std::vector<double>& all, size_t i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i * block);
    return quantile({begin, begin + static_cast<std::ptrdiff_t>(block)}, 0.5);
  };
  for (size_t i = 0; i < kBlocks; ++i) ratios.push_back(middle(samples.ours, i) / middle(samples.mpi, i));
  return {
      {"bytes", bytes},
      {"ours_p50_us", 1e6 * quantile(samples.ours, 0.5)},
      {"ours_p99_us", 1e6 * quantile(samples.ours, 0.99)},
      {"mpi_p50_us", 1e6 * quantile(samples.mpi, 0.5)},
      {"mpi_p99_us", 1e6 * quantile(samples.mpi, 0.99)},
      {"ratio_p50", {{"median", quantile(ratios, 0.5)}, {"min", quantile(ratios, 0)}, {"max", quantile(ratios, 1)}}},
      {"ratio_p99", quantile(samples.ours, 0.99) / quantile(samples.mpi, 0.99)},
      {"ours_work_us", 1e6 * quantile(samples.ours_work, 0.5)},
      {"mpi_work_us", 1e6 * quantile(samples.mpi_work, 0.5)}};
}

std::string line_of(const nlohmann::ordered_json& size) {
  return fmt::format("{:>9}{:>10.2f}{:>10.2f}{:>12.2f}{:>10.2f}{:>10.3f} ({:.3f} … {:.3f}){:>9.3f}{:>11.1f}{:>7.1f}\n",
                     size["bytes"].get<int64_t>(), size["ours_p50_us"].get<double>(), size["ours_p99_us"].get<double>(),
                     size["mpi_p50_us"].get<double>(), size["mpi_p99_us"].get<double>(),
                     size["ratio_p50"]["median"].get<double>(), size["ratio_p50"]["min"].get<double>(),
                     size["ratio_p50"]["max"].get<double>(), size["ratio_p99"].get<double>(),
                     size["ours_work_us"].get<double>(), size["mpi_work_us"].get<double>());
}

Result<void> measure_all(const Settings& settings, transport::Bootstrap& bootstrap, device::Communicator& communicator,
                         device::Communicator& meeting) {
  nlohmann::ordered_json json = {{"ranks", bootstrap.size()},
                                 {"mpi", transport::mpi::choose_library({}).value().name},
                                 {"communicator", communicator.name()},
                                 {"sizes", nlohmann::ordered_json::array()}};
  std::string table = fmt::format("{:>9}{:>10}{:>10}{:>12}{:>10}{:>10}{:>26}{:>11}{:>7}\n", "bytes", "ours p50", "p99",
                                  "MPI p50", "p99", "ratio", "p99's", "work, ours", "MPI's");
  for (const int64_t kib : {4, 8, 16, 32, 64, 256}) {
    Measurement measurement(communicator, meeting, kib << 10, settings.lends_roots);
    LOCKSTEP_TRY(const Samples samples, measurement.run(settings.rounds));
    json["sizes"].push_back(summary_of(kib << 10, samples));
    table += line_of(json["sizes"].back());
  }
  if (bootstrap.rank() != 0) return ok();
  fmt::print("{}", table);
  if (!settings.json.empty()) std::ofstream(settings.json) << json.dump(2) << "\n";
  return ok();
}

Result<void> measure_rank(const Settings& settings, group::Member& member) {
  transport::Bootstrap& bootstrap = member.bootstrap();
  const transport::WaitOptions wait = member.wait_options();
  trace::FlightRecorder recorder(member.clock());
  LOCKSTEP_TRY(const auto places, bootstrap.places());
  group::Placement placement;
  for (const transport::RankPlace& place : places) placement.ranks.push_back({.place = place});
  // As the threads of a rank are.
  const group::BoundThread bound(group::cores_of_threads(placement, member.rank()));
  group::ChosenCommunicator chosen;
  if (settings.way == "past-cache") {
    LOCKSTEP_TRY(chosen.communicator,
                 transport::shm::make_communicator(bootstrap, wait, {.copies = transport::shm::Copies::kPastCache}));
  } else {
    LOCKSTEP_TRY(chosen, group::make_communicator(member, settings.way, places));
  }
  trace::RecordedCommunicator communicator(std::move(chosen.communicator), recorder);  // as a step has it
  LOCKSTEP_TRY(const auto meeting, transport::shm::make_communicator(bootstrap, wait));
  return measure_all(settings, bootstrap, communicator, *meeting);
}

Result<void> run(const Settings& settings) {
  LOCKSTEP_TRY(const auto group, Group::mpi());
  if (group->size() < 2) {
    return Error{ErrorKind::kFailedPrecondition,
                 "[collective_benchmark] found 1 rank, expected 2 or more; start it with mpirun -n 2"};
  }
  LOCKSTEP_TRY_VOID(group::on_each_rank(group::State::of(*group),
                                        [&](group::Member& member) { return measure_rank(settings, member); }));
  return group->leave();
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::Settings settings;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string_view(argv[i]) == "--rounds") settings.rounds = std::max(70, std::atoi(argv[i + 1]));
    if (std::string_view(argv[i]) == "--way") settings.way = argv[i + 1];
    if (std::string_view(argv[i]) == "--roots") settings.lends_roots = std::string_view(argv[i + 1]) != "own";
    if (std::string_view(argv[i]) == "--json") settings.json = argv[i + 1];
  }
  const auto ran = lockstep::run(settings);
  if (ran.has_value()) return 0;
  fmt::print(stderr, "{}\n", ran.error().message);
  return lockstep::exit_code(ran.error().kind);
}
