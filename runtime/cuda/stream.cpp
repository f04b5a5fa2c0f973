#include "runtime/cuda/stream.h"

#include <fmt/format.h>

#include <thread>

#include "runtime/cuda/status.h"

namespace lockstep::cu {
namespace {

constexpr int kSpins = 4096;  // some ms of polling: a step of a small model ends within them

}  // namespace

Result<std::unique_ptr<Stream>> Stream::create(const Context& context) {
  std::unique_ptr<Stream> stream(new Stream(context));
  const Functions& call = context.functions();
  LOCKSTEP_TRY_VOID(check(call.StreamCreate(&stream->stream_, kStreamNonBlocking), "make a stream"));
  LOCKSTEP_TRY_VOID(check(call.EventCreate(&stream->done_, kEventDisableTiming), "make an event"));
  return stream;
}

Stream::~Stream() {
  if (done_ != nullptr) context_.functions().EventDestroy(done_);
  if (stream_ != nullptr) context_.functions().StreamDestroy(stream_);
}

Result<void> Stream::copy_to_device(DeviceAddress dst, std::span<const std::byte> src) {
  return check(context_.functions().MemcpyHtoDAsync(dst.value, src.data(), src.size(), stream_), "copy to the device");
}

Result<void> Stream::copy_to_host(std::span<std::byte> dst, DeviceAddress src) {
  return check(context_.functions().MemcpyDtoHAsync(dst.data(), src.value, dst.size(), stream_),
               "copy from the device");
}

Result<void> Stream::copy(DeviceAddress dst, DeviceAddress src, int64_t bytes) {
  return check(context_.functions().MemcpyDtoDAsync(dst.value, src.value, static_cast<size_t>(bytes), stream_),
               "copy on the device");
}

Result<void> Stream::fill_zero(DeviceAddress dst, int64_t bytes) {
  return check(context_.functions().MemsetD8Async(dst.value, 0, static_cast<size_t>(bytes), stream_),
               "clear memory of the device");
}

Result<void> Stream::begin_capture() {
  return check(context_.functions().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
               "begin a capture");
}

Result<std::unique_ptr<CapturedGraph>> Stream::end_capture() {
  const Functions& call = context_.functions();
  CUgraph graph = nullptr;
  LOCKSTEP_TRY_VOID(check(call.StreamEndCapture(stream_, &graph), "end a capture"));
  size_t nodes = 0;
  CUgraphExec executable = nullptr;
  CUresult status = call.GraphGetNodes(graph, nullptr, &nodes);
  if (status == CUDA_SUCCESS) status = call.GraphInstantiate(&executable, graph, 0);
  call.GraphDestroy(graph);
  LOCKSTEP_TRY_VOID(check(status, "prepare a captured graph"));
  std::unique_ptr<CapturedGraph> captured(new CapturedGraph(context_, executable, static_cast<int64_t>(nodes)));
  LOCKSTEP_TRY_VOID(check(call.GraphUpload(executable, stream_), "upload a captured graph"));
  return captured;
}

Result<void> Stream::wait(const WaitLimit& limit) {
  const Functions& call = context_.functions();
  LOCKSTEP_TRY_VOID(check(call.EventRecord(done_, stream_), "mark the end of a step"));
  std::optional<Deadline> deadline;
  for (int looks = 0;; ++looks) {
    const CUresult status = call.EventQuery(done_);
    if (status != CUDA_ERROR_NOT_READY) return check(status, "run a step");
    if (limit.abort != nullptr && limit.abort->is_raised()) {
      return limit.abort->reason().value_or(Error{ErrorKind::kCancelled, "[runtime/cuda] a wait was cancelled"});
    }
    if (looks < kSpins) continue;
    if (limit.check) LOCKSTEP_TRY_VOID(limit.check());
    if (!deadline) deadline.emplace(*limit.clock, limit.deadline);
    if (deadline->has_passed()) {
      return Error{ErrorKind::kDeadlineExceeded,
                   fmt::format("[runtime/cuda] GPU {} did not finish a step: found work under way after {:.3g} s, "
                               "expected its end; look at the other ranks and at nvidia-smi, or raise --deadline-s",
                               context_.device().ordinal, to_seconds(limit.deadline))};
    }
    std::this_thread::yield();
  }
}

CapturedGraph::~CapturedGraph() { context_.functions().GraphExecDestroy(executable_); }

Result<void> CapturedGraph::launch(Stream& stream) const {
  return check(context_.functions().GraphLaunch(executable_, stream.native()), "start a step");
}

Result<std::unique_ptr<Stopwatch>> Stopwatch::create(const Context& context) {
  std::unique_ptr<Stopwatch> watch(new Stopwatch(context));
  LOCKSTEP_TRY_VOID(check(context.functions().EventCreate(&watch->begin_, kEventDefault), "make an event"));
  LOCKSTEP_TRY_VOID(check(context.functions().EventCreate(&watch->end_, kEventDefault), "make an event"));
  return watch;
}

Stopwatch::~Stopwatch() {
  if (begin_ != nullptr) context_.functions().EventDestroy(begin_);
  if (end_ != nullptr) context_.functions().EventDestroy(end_);
}

Result<void> Stopwatch::begin(Stream& stream) {
  return check(context_.functions().EventRecord(begin_, stream.native()), "mark a time");
}

Result<void> Stopwatch::end(Stream& stream) {
  return check(context_.functions().EventRecord(end_, stream.native()), "mark a time");
}

Result<Duration> Stopwatch::elapsed() const {
  float milliseconds = 0;
  LOCKSTEP_TRY_VOID(check(context_.functions().EventElapsedTime(&milliseconds, begin_, end_), "read a time"));
  return duration_of(milliseconds * 1e-3);
}

}  // namespace lockstep::cu
