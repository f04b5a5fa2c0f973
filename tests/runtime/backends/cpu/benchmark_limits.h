// The limits for kernel benchmarks: those of this machine's first core. They are measured in turn with the kernel,
// because a shared machine's limits drift.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "runtime/backends/cpu/memory.h"
#include "runtime/backends/cpu/tensor.h"
#include "runtime/probe/kernels.h"
#include "tests/runtime/backends/cpu/probes.h"

namespace lockstep::cpu {

/// Whether everything runs only once, over little memory: a check that the benchmarks still work.
inline bool runs_once() { return std::getenv("LOCKSTEP_BENCHMARK_ONCE") != nullptr; }

/// Iterations of a benchmark whose figures need `wanted` of them.
inline int64_t iterations(int64_t wanted) { return runs_once() ? 1 : wanted; }

/// Bytes that no cache holds.
inline int64_t probe_bytes() { return runs_once() ? int64_t{1} << 20 : int64_t{256} << 20; }

/// Processor time of this thread, which does not include the time of other programs on the core.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

inline double seconds_of(auto&& work) {
  const double begin = thread_seconds();
  work();
  return thread_seconds() - begin;
}

/// Memory that is physically there, filled with small numbers of `dtype`: a megabyte of them, again and again.
inline Mapping filled(int64_t bytes, DType dtype) {
  constexpr int64_t kPeriod = int64_t{1} << 20;
  constexpr int64_t kHugePage = int64_t{2} << 20;  // on which a step's memory lies, too
  Mapping mapping = Mapping::create(std::max(bytes, kHugePage), Pages::kHuge, "a benchmark").value();
  std::minstd_rand random(1);
  const int64_t first = std::min(mapping.size(), kPeriod);
  for (int64_t at = 0; at < first; at += static_cast<int64_t>(size_of(dtype))) {
    const float value = static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    if (dtype == DType::kFloat32) {
      std::memcpy(mapping.data() + at, &value, 4);
    } else {
      const BFloat16 narrow = to_bfloat16(value);
      std::memcpy(mapping.data() + at, &narrow, 2);
    }
  }
  for (int64_t at = first; at < mapping.size(); at += kPeriod) {
    std::memcpy(mapping.data() + at, mapping.data(), static_cast<size_t>(std::min(kPeriod, mapping.size() - at)));
  }
  return mapping;
}

/// Bytes per second of reading memory once, the best of two ways to do it.
inline double read_limit(const Mapping& memory) {
  double best = 0;
  for (int streams : {1, 4}) {
    const double seconds =
        seconds_of([&] { benchmark::DoNotOptimize(read_memory(memory.data(), memory.size(), streams)); });
    best = std::max(best, static_cast<double>(memory.size()) / seconds);
  }
  return best;
}

/// Operations per second of independent multiply-adds in registers, of float32 or of bfloat16 pairs, the best of all
/// ways to do them: a limit for all kernels.
inline double register_peak(bool pairs) {
  double best = 0;
  for (const probe::DotKernel& kernel :
       probe::dot_kernels(pairs ? probe::Precision::kBFloat16 : probe::Precision::kFloat32)) {
    const int64_t rounds = runs_once() ? 100 : 1'000'000'000 / kernel.flops_per_round;
    const double seconds = seconds_of([&] { benchmark::DoNotOptimize(kernel.run(rounds, 1.0f, 0.5f)); });
    best = std::max(best, static_cast<double>(kernel.flops_per_round * rounds) / seconds);
  }
  return best;
}

/// Ratios of a measurement to its probe, taken in turn.
class PairedRatio {
 public:
  void add(double ratio) { ratios_.push_back(ratio); }
  void report(benchmark::State& state) {
    std::sort(ratios_.begin(), ratios_.end());
    const auto at = [&](double quantile) { return ratios_[static_cast<size_t>(quantile * (ratios_.size() - 1))]; };
    state.counters["ratio"] = at(0.5);
    state.counters["low"] = at(0.25);
    state.counters["high"] = at(0.75);
  }

 private:
  std::vector<double> ratios_;
};

/// Runs `work`, which takes `amount` (of bytes or operations) a call, in turn with the limit per second that
/// `limit_of` measures. Counters: the ratio; the speed, in 1e9 a second, as `unit`; the last limit as `limit_name`.
template <typename Limit, typename Work>
void run_beside(benchmark::State& state, Limit limit_of, const char* limit_name, double amount, const char* unit,
                Work work, int calls = 1) {
  PairedRatio ratio;
  double speed = 0, limit = 0;
  for (auto _ : state) {
    limit = limit_of();
    const double seconds = seconds_of([&] {
      for (int i = 0; i < calls; ++i) work();
    });
    speed = amount * calls / seconds;
    state.SetIterationTime(seconds / calls);
    ratio.add(speed / limit);
  }
  ratio.report(state);
  state.counters[unit] = speed * 1e-9;
  state.counters[limit_name] = limit * 1e-9;
}

/// Compares with the read bandwidth; a call reads `bytes`.
template <typename Work>
void run_beside_reads(benchmark::State& state, double bytes, Work work, int calls = 1) {
  const Mapping probe = filled(probe_bytes(), DType::kFloat32);
  run_beside(
      state, [&] { return read_limit(probe); }, "probe", bytes, "GB/s", work, calls);
}

/// Compares with the multiply-add peak `peak_of()`; a call computes `flops`.
template <typename Peak, typename Work>
void run_beside_peak(benchmark::State& state, Peak peak_of, double flops, Work work) {
  run_beside(state, peak_of, "peak", flops, "GFLOP/s", work);
}

inline Tensor tensor_over(const Mapping& memory, DType dtype, int64_t rows, int64_t columns) {
  Tensor tensor{.data = memory.data(), .dtype = dtype, .rows = rows, .columns = columns};
  tensor.stride = columns * tensor.element_size();
  return tensor;
}

}  // namespace lockstep::cpu
