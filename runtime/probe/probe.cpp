#include "runtime/probe/probe.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <thread>

#include "runtime/core/machine_memory.h"
#include "runtime/probe/buffer.h"
#include "runtime/probe/kernels.h"
#include "runtime/probe/start_line.h"

namespace lockstep::probe {
namespace {

constexpr auto kLongEnough = std::chrono::milliseconds(40);  // duration of a dot kernel, much longer than its start
constexpr int64_t kRounds = int64_t{1} << 20;                // per call: sums stay exact
constexpr float kLeft = 1.0f, kRight = 0.5f;

/// Binds the calling thread, where the system allows it.
void bind_to(int core) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(core), &one);
  sched_setaffinity(0, sizeof one, &one);
}

class HostProber final : public Prober {
 public:
  HostProber(const Options& options, const Clock& clock)
      : threads_(options.threads), cores_(options.cores), instructions_(options.instructions), clock_(clock) {}

  Result<void> fill(Bytes per_thread);
  Result<std::vector<Figure>> read(const Meet& meet) override;
  Result<std::vector<Figure>> read_again(std::span<const size_t> kernels, int passes, const Meet& meet) override;
  Result<std::vector<Figure>> multiply(Precision precision, const Meet& meet) override;
  Result<Figure> multiply_again(Precision precision, size_t kernel, const Meet& meet) override;

 private:
  struct Pages {
    PageSize size;
    std::string_view name;
    std::vector<Buffer> buffers;  // by thread
  };

  template <typename Work>
  Result<Sample> run_together(const Meet& meet, double amount_per_thread, Work&& work);
  Result<Figure> read_with(const ReadKernel& kernel, const Pages& pages, const Meet& meet);
  Result<Figure> multiply_with(const DotKernel& kernel, const Meet& meet);
  int calls_of(const DotKernel& kernel) const;

  const int threads_;
  const std::vector<int> cores_;
  const Instructions instructions_;
  const Clock& clock_;
  std::vector<Pages> pages_;
  std::vector<std::pair<std::string_view, int>> calls_;  // calls by dot kernel, set at its first use
};

/// Runs `work(thread)` on all threads. They begin together, after the ranks have met.
template <typename Work>
Result<Sample> HostProber::run_together(const Meet& meet, double amount_per_thread, Work&& work) {
  StartLine start(threads_);
  std::vector<Sample> samples(static_cast<size_t>(threads_));
  bool goes_on = true;  // written before the start line, read after it
  const auto run = [&](int thread) {
    if (thread > 0 && !cores_.empty()) bind_to(cores_[static_cast<size_t>(thread)]);
    start.arrive();
    if (!goes_on) return;
    Sample& sample = samples[static_cast<size_t>(thread)];
    const TimePoint begin = clock_.now();
    work(thread);
    sample = {begin, clock_.now(), amount_per_thread};
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads_; ++thread) others.emplace_back(run, thread);
  const Result<void> met = meet ? meet() : Result<void>(ok());
  goes_on = met.has_value();
  run(0);
  for (std::thread& other : others) other.join();
  if (!met.has_value()) return met.error();
  return together(samples);
}

Result<void> HostProber::fill(Bytes per_thread) {
  const Bytes size(per_thread.value / int64_t{kReadGranule} * int64_t{kReadGranule});
  for (const auto& [pages, name] : {std::pair{PageSize::k4KiB, "4 KiB pages"}, {PageSize::k2MiB, "2 MiB pages"}}) {
    Pages kind{pages, name, {}};
    for (int thread = 0; thread < threads_; ++thread) {
      LOCKSTEP_TRY(Buffer buffer, Buffer::create(size, pages));
      kind.buffers.push_back(std::move(buffer));
    }
    const auto write = [&](int thread) { kind.buffers[static_cast<size_t>(thread)].fill(); };
    LOCKSTEP_TRY_VOID(run_together({}, 0.0, write));
    pages_.push_back(std::move(kind));
  }
  return ok();
}

Result<Figure> HostProber::read_with(const ReadKernel& kernel, const Pages& pages, const Meet& meet) {
  std::vector<uint64_t> sums(static_cast<size_t>(threads_));
  const auto work = [&](int thread) {
    const Buffer& buffer = pages.buffers[static_cast<size_t>(thread)];
    sums[static_cast<size_t>(thread)] = kernel.run(buffer.data(), buffer.size());
  };
  const auto bytes = static_cast<double>(pages.buffers.front().size());
  LOCKSTEP_TRY(const Sample sample, run_together(meet, bytes, work));
  for (size_t thread = 0; thread < sums.size(); ++thread) {
    LOCKSTEP_CHECK(sums[thread] == pages.buffers[thread].checksum(), kernel.name, thread);
  }
  return Figure{fmt::format("{}, {}", kernel.name, pages.name), sample};
}

Result<std::vector<Figure>> HostProber::read(const Meet& meet) {
  std::vector<size_t> all(pages_.size() * read_kernels(instructions_).size());
  std::iota(all.begin(), all.end(), size_t{0});
  return read_again(all, 1, meet);
}

Result<std::vector<Figure>> HostProber::read_again(std::span<const size_t> kernels, int passes, const Meet& meet) {
  const std::vector<ReadKernel> known = read_kernels(instructions_);
  std::vector<Figure> figures;
  for (int pass = 0; pass < passes; ++pass) {
    for (const size_t kernel : kernels) {
      LOCKSTEP_TRY(Figure figure, read_with(known[kernel % known.size()], pages_.at(kernel / known.size()), meet));
      figures.push_back(std::move(figure));
    }
  }
  return figures;
}

/// The number of calls that takes about `kLongEnough`.
int HostProber::calls_of(const DotKernel& kernel) const {
  const TimePoint begin = clock_.now();
  kernel.run(kRounds, kLeft, kRight);
  const Duration one = std::max<Duration>(clock_.now() - begin, std::chrono::microseconds(100));
  return static_cast<int>(kLongEnough / one) + 1;
}

Result<Figure> HostProber::multiply_with(const DotKernel& kernel, const Meet& meet) {
  auto chosen = std::find_if(calls_.begin(), calls_.end(), [&](const auto& c) { return c.first == kernel.name; });
  if (chosen == calls_.end()) chosen = calls_.insert(chosen, {kernel.name, calls_of(kernel)});
  const int calls = chosen->second;
  std::vector<double> sums(static_cast<size_t>(threads_));
  const auto work = [&](int thread) {
    double sum = 0;
    for (int call = 0; call < calls; ++call) sum += kernel.run(kRounds, kLeft, kRight);
    sums[static_cast<size_t>(thread)] = sum;
  };
  const double flops = static_cast<double>(calls * kRounds) * static_cast<double>(kernel.flops_per_round);
  LOCKSTEP_TRY(const Sample sample, run_together(meet, flops, work));
  // All counted operations must have been executed.
  for (const double sum : sums) LOCKSTEP_CHECK(sum == flops / 2 * kLeft * kRight, kernel.name, sum, calls);
  return Figure{std::string(kernel.name), sample};
}

Result<std::vector<Figure>> HostProber::multiply(Precision precision, const Meet& meet) {
  std::vector<Figure> figures;
  for (const DotKernel& kernel : dot_kernels(precision, instructions_)) {
    for (int pass = 0; pass < kDotPasses; ++pass) {
      LOCKSTEP_TRY(figures.emplace_back(), multiply_with(kernel, meet));
    }
  }
  return figures;
}

Result<Figure> HostProber::multiply_again(Precision precision, size_t kernel, const Meet& meet) {
  return multiply_with(dot_kernels(precision, instructions_).at(kernel), meet);
}

}  // namespace

Sample together(std::span<const Sample> samples) {
  if (samples.empty()) return {};
  Sample all{samples.front().begin, samples.front().end, 0.0};
  for (const Sample& sample : samples) {
    all.begin = std::min(all.begin, sample.begin);
    all.end = std::max(all.end, sample.end);
    all.amount += sample.amount;
  }
  return all;
}

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kFloat32: return "float32";
    case Precision::kBFloat16: return "bfloat16";
    case Precision::kInt8: return "int8";
  }
  return "";
}

std::optional<Instructions> instructions_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, Instructions>, 5> kNames = {
      {{"portable", Instructions::kPortable},
       {"avx2", Instructions::kAvx2},
       {"avx512", Instructions::kAvx512},
       {"avx512_bf16", Instructions::kAvx512Bf16},
       {"amx", Instructions::kAmx}}};
  const auto* const found = std::ranges::find(kNames, name, &std::pair<std::string_view, Instructions>::first);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

double rate(const Sample& sample) {
  return sample.end > sample.begin ? sample.amount / to_seconds(sample.end - sample.begin) : 0.0;
}

size_t best_median(std::span<const Figure> figures, std::span<const double> rates) {
  LOCKSTEP_CHECK(!figures.empty() && figures.size() == rates.size(), figures.size(), rates.size());
  const auto is_slower = [&](size_t a, size_t b) { return rates[a] < rates[b]; };
  std::map<std::string_view, std::vector<size_t>> by_kernel;
  for (size_t i = 0; i < figures.size(); ++i) by_kernel[figures[i].kernel].push_back(i);
  std::vector<size_t> medians;
  for (auto& [kernel, passes] : by_kernel) {
    const auto median = passes.begin() + (static_cast<std::ptrdiff_t>(passes.size()) - 1) / 2;
    std::nth_element(passes.begin(), median, passes.end(), is_slower);
    medians.push_back(*median);
  }
  return *std::max_element(medians.begin(), medians.end(), is_slower);
}

const Figure& best_median(std::span<const Figure> figures) {
  std::vector<double> rates;
  for (const Figure& figure : figures) rates.push_back(rate(figure.sample));
  return figures[best_median(figures, rates)];
}

Result<void> Options::validate() const {
  const auto invalid = [](std::string what) {
    return Error{ErrorKind::kInvalidArgument, "[runtime/probe] cannot probe: " + std::move(what)};
  };
  if (threads < 1) return invalid(fmt::format("found {} threads, expected at least 1", threads));
  if (!cores.empty() && cores.size() != static_cast<size_t>(threads)) {
    return invalid(fmt::format("found {} cores for {} threads, expected one each or none", cores.size(), threads));
  }
  constexpr Bytes kLeast(1 << 20);
  if (per_thread >= kLeast) return ok();
  return invalid(fmt::format("found buffers of {}, expected at least {}", to_string(per_thread), to_string(kLeast)));
}

Bytes default_per_thread(int threads) {
  LOCKSTEP_CHECK(threads >= 1, threads);
  constexpr int64_t kUsual = int64_t{512} << 20, kLeast = int64_t{16} << 20;
  const int64_t wanted = std::max(kUsual, 8 * last_level_cache().value / threads);
  const int64_t available = available_memory().value;
  const int64_t share = available > 0 ? available / 4 / 2 / threads : wanted;
  return Bytes(std::max(kLeast, std::min(wanted, share)));
}

Result<std::unique_ptr<Prober>> Prober::create(const Options& options, const Clock& clock) {
  LOCKSTEP_TRY_VOID(options.validate());
  auto prober = std::make_unique<HostProber>(options, clock);
  LOCKSTEP_TRY_VOID(prober->fill(options.per_thread));
  return std::unique_ptr<Prober>(std::move(prober));
}

}  // namespace lockstep::probe
