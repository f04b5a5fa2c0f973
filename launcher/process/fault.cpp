#include "launcher/process/fault.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <new>
#include <sstream>
#include <string_view>

#include "runtime/core/guard.h"

namespace lockstep::launcher {
namespace {

constexpr std::array<std::string_view, 15> kPhases = {"launch",  "bootstrap", "plan",    "connect", "load",
                                                      "compile", "agreement", "session", "probe",   "warm-up",
                                                      "run",     "prefill",   "decode",  "report",  "finish"};

const std::map<std::string, FaultKind> kKinds = {{"kill", FaultKind::kKill},     {"stop", FaultKind::kStop},
                                                 {"fail", FaultKind::kFail},     {"memory", FaultKind::kMemory},
                                                 {"differ", FaultKind::kDiffer}, {"flip", FaultKind::kFlip}};

Error unreadable(const std::string& text, std::string_view what) {
  return {
      ErrorKind::kInvalidArgument,
      fmt::format(
          "[launcher] --fault: found '{}', expected rank=R,phase=NAME,kind=kill|stop|fail|memory|differ[,step=N] or "
          "rank=R,phase=load|prefill|decode,kind=flip,tensor=NAME[,step=N] with {}",
          text, what)};
}

bool read_number(const std::string& text, int64_t& value) {
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && end == text.data() + text.size() && value >= 0;
}

bool is_of_steps(const std::string& phase) { return phase == "prefill" || phase == "decode"; }

/// Reports the time of the fault, for measurements of its effects.
void announce(const Fault& fault) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  fmt::print(stderr, "[r{}] --fault: rank {} fails in {} at {:.3f}\n", fault.rank, fault.rank, fault.phase,
             now.count());
  std::fflush(stderr);
}

void strike(const Fault& fault) {
  announce(fault);
  switch (fault.kind) {
    case FaultKind::kKill: std::raise(SIGKILL); return;
    case FaultKind::kStop: std::raise(SIGSTOP); return;
    case FaultKind::kDiffer:
    case FaultKind::kFlip: return;
    case FaultKind::kMemory: throw std::bad_alloc();
    case FaultKind::kFail:
      throw ThrownError({ErrorKind::kInternal,
                         fmt::format("[launcher] rank {} failed in {}, as --fault asked", fault.rank, fault.phase)});
  }
}

/// Changes a weight that nothing else may write, as a fault of the memory does: in no order with those who read it,
/// which ThreadSanitizer would report.
[[gnu::no_sanitize("thread")]] void flip_in_memory(const std::string& name,
                                                   const std::vector<device::ResidentWeight>& weights) {
  for (const device::ResidentWeight& weight : weights) {
    if (weight.name != name || weight.bytes.empty()) continue;
    auto& flipped = const_cast<std::byte&>(weight.bytes[weight.bytes.size() / 2]);
    reinterpret_cast<unsigned char&>(flipped) ^= 1;  // a std::byte's ^= is a function, which would be watched
    return;
  }
}

}  // namespace

Result<Fault> parse_fault(const std::string& text) {
  std::map<std::string, std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) {
    const size_t equals = std::min(part.find('='), part.size());
    parts[part.substr(0, equals)] = part.substr(std::min(equals + 1, part.size()));
  }
  Fault fault;
  int64_t rank = 0;
  if (!read_number(parts["rank"], rank)) return unreadable(text, "a rank from 0 on");
  fault.rank = static_cast<int>(rank);
  fault.phase = parts["phase"];
  if (std::ranges::find(kPhases, fault.phase) == kPhases.end()) {
    return unreadable(text, fmt::format("a phase of {}", fmt::join(kPhases, ", ")));
  }
  const auto kind = kKinds.find(parts["kind"]);
  if (kind == kKinds.end()) return unreadable(text, "a kind of kill, stop, fail, memory, differ, flip");
  fault.kind = kind->second;
  if (fault.kind == FaultKind::kDiffer && !is_of_steps(fault.phase)) {
    return unreadable(text, "kind=differ in prefill or decode");
  }
  const bool has_step = parts.contains("step");
  if (has_step && (!is_of_steps(fault.phase) || !read_number(parts["step"], fault.step))) {
    return unreadable(text, "a step from 0 on of prefill or decode");
  }
  if ((fault.kind == FaultKind::kFlip) != parts.contains("tensor") ||
      (fault.kind == FaultKind::kFlip && fault.phase != "load" && !is_of_steps(fault.phase))) {
    return unreadable(text, "kind=flip in load, prefill or decode, and a tensor for it alone");
  }
  fault.tensor = parts["tensor"];
  if (fault.tensor.empty()) parts.erase("tensor");
  const size_t expected = 3 + (has_step ? 1 : 0) + (fault.tensor.empty() ? 0 : 1);
  if (parts.size() != expected) return unreadable(text, "nothing else");
  return fault;
}

Faults::Faults(std::vector<Fault> all, int rank) : own_(std::move(all)) {
  std::erase_if(own_, [&](const Fault& fault) { return fault.rank != rank; });
}

void Faults::at_phase(const char* phase) const {
  for (const Fault& fault : own_) {
    if (fault.phase == phase && !is_of_steps(fault.phase) && fault.kind != FaultKind::kFlip) strike(fault);
  }
}

bool Faults::may_differ() const { return std::ranges::find(own_, FaultKind::kDiffer, &Fault::kind) != own_.end(); }

bool Faults::may_flip() const { return std::ranges::find(own_, FaultKind::kFlip, &Fault::kind) != own_.end(); }

void Faults::at_weights(const std::string& tensor, std::span<std::byte> read) {
  for (const Fault& fault : own_) {
    if (fault.kind != FaultKind::kFlip || fault.phase != "load" || fault.tensor != tensor || read.empty()) continue;
    std::lock_guard lock(flipped_->mutex);
    if (!flipped_->tensors.insert(tensor).second) continue;
    strike(fault);
    read[read.size() / 2] ^= std::byte{1};
  }
}

void Faults::at_step(const actors::ExecutorStatus& status) {
  const int64_t done = status.phase == actors::Phase::kPrefill ? status.prefill_steps : status.decode_steps;
  for (const Fault& fault : own_) {
    if (!is_of_steps(fault.phase) || fault.phase != to_string(status.phase) || fault.step != done) continue;
    differs_ = fault.kind == FaultKind::kDiffer;
    strike(fault);
    if (fault.kind == FaultKind::kFlip) flip_in_memory(fault.tensor, weights_);
  }
}

}  // namespace lockstep::launcher
