// Work in order: a stream, waiting for it, and captured graphs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "runtime/core/abort_flag.h"
#include "runtime/core/clock.h"
#include "runtime/cuda/memory.h"

namespace lockstep::cu {

/// How long a wait for the device may take, and what ends it early. Borrows clock and flag.
struct WaitLimit {
  const Clock* clock = nullptr;
  Duration deadline{};
  const AbortFlag* abort = nullptr;     // may be null
  std::function<Result<void>()> check;  // asked between looks of a long wait, which ends with its error; may be empty
};

class CapturedGraph;

/// A queue of work on the device. Used by one thread.
class Stream {
 public:
  static Result<std::unique_ptr<Stream>> create(const Context& context);
  /// No work may be under way, or the driver waits for it.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const Context& context() const { return context_; }
  CUstream native() const { return stream_; }

  // Enqueued. Host memory is pinned and stays as it is until the copy is done.
  Result<void> copy_to_device(DeviceAddress dst, std::span<const std::byte> src);
  Result<void> copy_to_host(std::span<std::byte> dst, DeviceAddress src);
  Result<void> copy(DeviceAddress dst, DeviceAddress src, int64_t bytes);
  Result<void> fill_zero(DeviceAddress dst, int64_t bytes);

  /// Records calls, until `end_capture`, instead of executing them. Everything that they use has to exist before.
  Result<void> begin_capture();
  /// The recorded calls as a graph that is ready on the device. @blocking
  Result<std::unique_ptr<CapturedGraph>> end_capture();

  /// Polls until all work is done: spins first, then yields. Fails with the error of the work, `kDeadlineExceeded`, or
  /// the reason of the abort flag; after the latter two the work is still under way. @blocking
  Result<void> wait(const WaitLimit& limit);

 private:
  explicit Stream(const Context& context) : context_(context) {}

  const Context& context_;
  CUstream stream_ = nullptr;
  CUevent done_ = nullptr;
};

/// A captured step. Its addresses and parameters are fixed.
class CapturedGraph {
 public:
  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Enqueues one replay. Neither allocates nor waits.
  Result<void> launch(Stream& stream) const;
  /// Kernels and copies of one replay.
  int64_t nodes() const { return nodes_; }

 private:
  friend class Stream;
  CapturedGraph(const Context& context, CUgraphExec executable, int64_t nodes)
      : context_(context), executable_(executable), nodes_(nodes) {}

  const Context& context_;
  CUgraphExec executable_ = nullptr;
  int64_t nodes_ = 0;
};

/// Two points of a stream's work, and the time between them.
class Stopwatch {
 public:
  static Result<std::unique_ptr<Stopwatch>> create(const Context& context);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  Result<void> begin(Stream& stream);
  Result<void> end(Stream& stream);
  /// After a wait for the stream.
  Result<Duration> elapsed() const;

 private:
  explicit Stopwatch(const Context& context) : context_(context) {}

  const Context& context_;
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
};

}  // namespace lockstep::cu
