// What this machine can do at most: the speed at which it reads memory and at which it multiplies and adds. A benchmark
// reports its own speed as a ratio to these, measured beside it in the same run.
//
//   rank 0, thread 0   meet ─┤ kernel over its own buffer      ├
//           thread 1         ┤ kernel over its own buffer ├          the clock runs from the first begin to the last
//           end
//   rank 1, thread 0   meet ─┤ kernel over its own buffer   ├
//
// A limit is that of the best of several kernels and page sizes, since a kernel may be unlucky with prefetchers and
// pages. Of several passes of a kernel the median counts (`best_median`): machines that others share are faster and
// slower from one moment to the next, and what runs for seconds beside a probe meets both.
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

/// Work done between two moments.
struct Sample {
  TimePoint begin;
  TimePoint end;
  double amount = 0.0;  // bytes or floating-point operations

  friend bool operator==(const Sample&, const Sample&) = default;
};

/// The sum of all amounts over the time from the first begin to the last end: what machines or threads did together.
/// All samples are of one clock. The amount is 0 and the moments are equal when there are none.
Sample together(std::span<const Sample> samples);

/// Amount per second; 0 for a sample without duration.
double rate(const Sample& sample);

/// What one kernel did.
struct Figure {
  std::string kernel;  // "512-bit, 4 streams, 2 MiB pages"
  Sample sample;
};

/// Of each kernel the figure with the median rate (the lower one of two), of these the one with the highest. `rates`
/// are those of `figures`, of which there is at least one.
size_t best_median(std::span<const Figure> figures, std::span<const double> rates);
/// That figure, by the figures' own rates.
const Figure& best_median(std::span<const Figure> figures);

/// How often each dot kernel runs in one probe: there are few of them, and each may be interrupted.
constexpr int kDotPasses = 3;

/// What is multiplied. Sums are float32, of integers integers.
enum class Precision { kFloat32, kBFloat16, kInt8 };

/// "float32", "bfloat16" or "int8".
std::string_view to_string(Precision precision);

/// Called before each kernel, so that ranks begin together; empty when there is one. An error ends the probe.
using Meet = std::function<Result<void>()>;

/// The most capable instructions that kernels use, each with those before it.
enum class Instructions { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmx, kAll = kAmx };

/// By the names of the cpu backend's --instruction-set: "portable" to "amx". Empty for another name.
std::optional<Instructions> instructions_of(std::string_view name);

struct Options {
  int threads = 1;
  Bytes per_thread;                                // of each thread's buffer, for each page size; at least 1 MiB
  Instructions instructions = Instructions::kAll;  // those of them that the machine has
  std::vector<int> cores;  // of the threads after the first, from cores[1] on; empty: threads inherit the first's

  /// Fails with `kInvalidArgument` naming the field.
  Result<void> validate() const;
};

/// A buffer size that no cache holds: eight times the last-level cache, at least 512 MiB, unless that is more than a
/// quarter of the available memory for `threads` threads (of all ranks of this host) and both page sizes.
Bytes default_per_thread(int threads);

/// Owns the buffers. Used by one thread, which is the first of the threads that probe; the others live during a call.
class Prober {
 public:
  /// Fills the buffers. Fails with `kResourceExhausted` when the memory cannot be had. The clock outlives the prober.
  static Result<std::unique_ptr<Prober>> create(const Options& options, const Clock& clock);
  virtual ~Prober() = default;

  /// Each thread reads its buffer once, with every kernel of this machine over 4 KiB and 2 MiB pages. Every rank gets
  /// the same kernels in the same order on machines of one kind. @blocking
  virtual Result<std::vector<Figure>> read(const Meet& meet) = 0;

  /// The same with some of these kernels, numbered as the figures of `read`, all of them `passes` times. @blocking
  virtual Result<std::vector<Figure>> read_again(std::span<const size_t> kernels, int passes, const Meet& meet) = 0;

  /// Each thread multiplies and adds in registers, with every kernel of this machine, `kDotPasses` times; no figures
  /// where it has no instruction for `precision`. @blocking
  virtual Result<std::vector<Figure>> multiply(Precision precision, const Meet& meet) = 0;

  /// One pass of kernel `kernel` of these. @blocking
  virtual Result<Figure> multiply_again(Precision precision, size_t kernel, const Meet& meet) = 0;
};

}  // namespace lockstep::probe
