// Measures the peak memory bandwidth and arithmetic throughput of this machine. A benchmark reports its own speed
// relative to these, measured in the same run.
//
//   rank 0, thread 0   meet ─┤ kernel over its own buffer      ├
//           thread 1         ┤ kernel over its own buffer ├          time: from the first start to the last end
//   rank 1, thread 0   meet ─┤ kernel over its own buffer   ├
//
// The reported limit is the best of several kernels and page sizes, since prefetchers and pages may slow down a single
// one. Each kernel's result is the median of several passes (`best_median`), because the speed of shared machines
// varies over time, also during the benchmark itself.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/core/clock.h"
#include "runtime/core/ids.h"
#include "runtime/core/result.h"

namespace lockstep::probe {

/// An amount of work between two points in time.
struct Sample {
  TimePoint begin;
  TimePoint end;
  double amount = 0.0;  // bytes or floating-point operations

  friend bool operator==(const Sample&, const Sample&) = default;
};

/// The combined work of machines or threads: the sum of all amounts over the time from the first start to the last end.
/// All samples use one clock. Without samples, the amount is 0 and the times are equal.
Sample together(std::span<const Sample> samples);

/// Amount per second; 0 for a sample without duration.
double rate(const Sample& sample);

/// The measurement of one kernel.
struct Figure {
  std::string kernel;  // "512-bit, 4 streams, 2 MiB pages"
  Sample sample;
};

/// Takes each kernel's figure with the median rate (the lower one of two) and returns the one with the highest. `rates`
/// are those of `figures`, of which there is at least one.
size_t best_median(std::span<const Figure> figures, std::span<const double> rates);
/// Returns that figure, using the figures' own rates.
const Figure& best_median(std::span<const Figure> figures);

/// Runs of each dot kernel in one probe: each may be interrupted.
constexpr int kDotPasses = 3;

/// The type of the factors. Sums are float32, or integers for integers.
enum class Precision { kFloat32, kBFloat16, kInt8 };

/// "float32", "bfloat16" or "int8".
std::string_view to_string(Precision precision);

/// Called before each kernel, so that ranks begin together; empty with one rank. An error ends the probe.
using Meet = std::function<Result<void>()>;

/// The most capable instructions that kernels use, each with those before it.
enum class Instructions { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmx, kAll = kAmx };

/// By the names of the cpu backend's --instruction-set: "portable" to "amx". Empty for another name.
std::optional<Instructions> instructions_of(std::string_view name);

struct Options {
  int threads = 1;
  Bytes per_thread;                                // buffer size of each thread and page size; at least 1 MiB
  Instructions instructions = Instructions::kAll;  // those of them that the machine has
  std::vector<int> cores;  // of the threads after the first, from cores[1] on; empty: threads inherit the first's

  /// Fails with `kInvalidArgument` naming the field.
  Result<void> validate() const;
};

/// A buffer size larger than any cache: eight times the last-level cache, at least 512 MiB, but at most a quarter of
/// the available memory for `threads` threads (of all ranks of this host) and both page sizes.
Bytes default_per_thread(int threads);

/// Owns the buffers. Used by one thread, which is the first probing thread; the others exist during a call.
class Prober {
 public:
  /// Fills the buffers. Fails with `kResourceExhausted` when there is not enough memory. The clock outlives the prober.
  static Result<std::unique_ptr<Prober>> create(const Options& options, const Clock& clock);
  virtual ~Prober() = default;

  /// Each thread reads its buffer once with every kernel of this machine, over 4 KiB and 2 MiB pages. Machines of one
  /// kind run the same kernels in the same order. @blocking
  virtual Result<std::vector<Figure>> read(const Meet& meet) = 0;

  /// Runs some of these kernels, by their index in the result of `read`, `passes` times each. @blocking
  virtual Result<std::vector<Figure>> read_again(std::span<const size_t> kernels, int passes, const Meet& meet) = 0;

  /// Each thread multiplies and adds in registers, with every kernel of this machine, `kDotPasses` times. Returns no
  /// figures without an instruction for `precision`. @blocking
  virtual Result<std::vector<Figure>> multiply(Precision precision, const Meet& meet) = 0;

  /// One pass of kernel `kernel` of these. @blocking
  virtual Result<Figure> multiply_again(Precision precision, size_t kernel, const Meet& meet) = 0;
};

}  // namespace lockstep::probe
