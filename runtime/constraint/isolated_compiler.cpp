#include "runtime/constraint/isolated_compiler.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "runtime/constraint/constraint_wire.h"
#include "runtime/constraint/kept_constraints.h"
#include "runtime/core/readiness.h"
#include "runtime/process/child_process.h"

namespace lockstep::constraint {
namespace {

constexpr size_t kMostProcesses = 32;                            // constraints, each with its process
constexpr size_t kMostAnswer = 4096;                             // bytes of an answer without a mask
constexpr Duration kCompilePatience = std::chrono::seconds(30);  // limits are of processor time, which others use too
constexpr Duration kMaskPatience = std::chrono::seconds(10);

Error too_costly(const IsolationLimits& limits, std::string_view what, Duration time) {
  return {ErrorKind::kInvalidArgument,
          fmt::format("[runtime/constraint] cannot use the constraint: found that {} takes more than {:.3g} s of a "
                      "processor or {} MiB, expected less; make it simpler: fewer repetitions, optional parts and "
                      "alternatives inside each other",
                      what, to_seconds(time), limits.memory.value >> 20)};
}

Error stopped() {
  return {ErrorKind::kCancelled, "[runtime/constraint] cannot compile the constraint: the engine ends"};
}

Error not_allowed(int32_t token) {
  return {ErrorKind::kFailedPrecondition,
          fmt::format("[runtime/constraint] the constraint cannot go on: found token {}, expected one that it allows",
                      token)};
}

class IsolatedMatcher final : public Matcher {
 public:
  IsolatedMatcher(Descriptor socket, std::vector<int32_t> end_tokens, size_t vocabulary, const IsolationLimits& limits)
      : socket_(std::move(socket)),
        end_tokens_(std::move(end_tokens)),
        bits_(mask_words(vocabulary)),
        limits_(limits) {}

  Result<void> mask(std::span<float> scores) override {
    LOCKSTEP_TRY_VOID(receive());
    return apply_mask(bits_, scores);
  }

  Result<void> accept(int32_t token) override {
    LOCKSTEP_TRY_VOID(receive());
    const auto bit = static_cast<uint32_t>(token);
    const bool is_allowed = bit / 32 < bits_.size() && (static_cast<uint32_t>(bits_[bit / 32]) >> (bit % 32) & 1) != 0;
    if (!is_allowed) return not_allowed(token);
    has_ended_ = std::ranges::find(end_tokens_, token) != end_tokens_.end();
    is_fresh_ = false;
    if (has_ended_ || send_datagram(socket_.get(), to_bytes(std::span(&token, 1)))) return ok();
    return too_costly(limits_, "a token", limits_.most_mask);
  }

  bool has_ended() const override { return has_ended_; }

 private:
  /// The bits of the next token, unless they are there. @blocking
  Result<void> receive() {
    if (is_fresh_) return ok();
    const size_t most = std::max(kMostAnswer, 1 + bits_.size() * sizeof(int32_t));
    const auto answer = receive_datagram(socket_.get(), most, kMaskPatience);
    if (!answer) return too_costly(limits_, "a token", limits_.most_mask);
    if (answer->bytes.front() == kFailed) return parse_failure(answer->bytes);
    bits_ = parse_numbers(std::string_view(answer->bytes).substr(1));
    is_fresh_ = true;
    return ok();
  }

  const Descriptor socket_;  // to the answer's process
  const std::vector<int32_t> end_tokens_;
  std::vector<int32_t> bits_;
  const IsolationLimits limits_;
  bool is_fresh_ = false;  // the bits are those of the next token
  bool has_ended_ = false;
};

class IsolatedConstraint final : public Constraint {
 public:
  IsolatedConstraint(Descriptor socket, size_t vocabulary, const IsolationLimits& limits)
      : socket_(std::move(socket)), vocabulary_(vocabulary), limits_(limits) {}

  Result<std::unique_ptr<Matcher>> begin(const std::vector<int32_t>& end_tokens) const override {
    LOCKSTEP_TRY_VOID(check_end_tokens(end_tokens));
    LOCKSTEP_TRY(SocketPair pair, make_socket_pair());
    const int theirs = pair.theirs.get();
    if (!send_datagram(socket_.get(), to_bytes(std::span(end_tokens)), std::span(&theirs, 1))) {
      return Error{ErrorKind::kUnavailable,
                   "[runtime/constraint] cannot use the constraint: found that its process has ended, expected it to "
                   "run; send the request again"};
    }
    return std::unique_ptr<Matcher>(
        std::make_unique<IsolatedMatcher>(std::move(pair.ours), end_tokens, vocabulary_, limits_));
  }

  /// Whether its process runs.
  bool is_alive() const { return !becomes_ready(socket_.get(), POLLIN, Duration::zero()); }

 private:
  const Descriptor socket_;  // to the constraint's process
  const size_t vocabulary_;
  const IsolationLimits limits_;
};

class IsolatedCompiler final : public Compiler {
 public:
  IsolatedCompiler(HostSetup setup, std::filesystem::path program)
      : vocabulary_(setup.table.tokens.size()),
        limits_(setup.limits),
        setup_(to_bytes(setup)),
        program_(std::move(program)) {}

  Result<std::shared_ptr<const Constraint>> compile(std::string_view json) override {
    LOCKSTEP_TRY(const CheckedFormat format, check_format(json));
    if (auto kept = kept_.find(json); kept && kept->is_alive()) return std::shared_ptr<const Constraint>(kept);
    LOCKSTEP_TRY(SocketPair pair, make_socket_pair());
    LOCKSTEP_TRY(const Descriptor text, memory_file(to_bytes(format)));
    LOCKSTEP_TRY_VOID(send({pair.theirs.get(), text.get()}));
    pair.theirs.close();
    const auto answer = receive_datagram(pair.ours.get(), kMostAnswer, kCompilePatience);
    if (!answer) return is_stopped_ ? stopped() : too_costly(limits_, "it", limits_.compile);
    if (answer->bytes.front() == kFailed) return parse_failure(answer->bytes);
    const auto made = std::make_shared<const IsolatedConstraint>(std::move(pair.ours), vocabulary_, limits_);
    kept_.keep(json, made);
    return std::shared_ptr<const Constraint>(made);
  }

  void stop() override {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    host_.reset();  // with all its processes
    socket_.close();
  }

 private:
  /// Sends a constraint to the host, which is started if it does not run.
  Result<void> send(std::array<int, kMostDescriptors> descriptors) {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return stopped();
    if (socket_.is_open() && send_datagram(socket_.get(), "c", descriptors)) return ok();
    LOCKSTEP_TRY_VOID(start());
    if (send_datagram(socket_.get(), "c", descriptors)) return ok();
    return Error{ErrorKind::kUnavailable,
                 fmt::format("[runtime/constraint] cannot compile the constraint: found that {} has ended, expected it "
                             "to run; look at the memory of the machine",
                             program_.string())};
  }

  Result<void> start() {
    host_.reset();
    LOCKSTEP_TRY(SocketPair pair, make_socket_pair());
    LOCKSTEP_TRY(const Descriptor setup, memory_file(setup_));
    LOCKSTEP_TRY(host_, process::ChildProcess::start({.words = {program_.string(), std::to_string(pair.theirs.get()),
                                                                std::to_string(setup.get())},
                                                      .output = process::ChildStream::kDiscard,
                                                      .errors = process::ChildStream::kDiscard,
                                                      .kept = {pair.theirs.get(), setup.get()},
                                                      .orphan_signal = 0}));  // it ends when the socket closes
    socket_ = std::move(pair.ours);
    return ok();
  }

  const size_t vocabulary_;
  const IsolationLimits limits_;
  const std::string setup_;
  const std::filesystem::path program_;
  std::atomic<bool> is_stopped_ = false;
  std::mutex mutex_;                             // guards the two below
  std::unique_ptr<process::ChildProcess> host_;  // null before the first constraint
  Descriptor socket_;
  KeptConstraints<IsolatedConstraint> kept_{kMostProcesses};
};

}  // namespace

Result<std::unique_ptr<Compiler>> make_isolated_compiler(const text::Tokenizer& tokenizer, int64_t vocabulary,
                                                         std::filesystem::path program, IsolationLimits limits) {
  LOCKSTEP_TRY_VOID(check_build());
  return std::unique_ptr<Compiler>(
      std::make_unique<IsolatedCompiler>(HostSetup{limits, token_table(tokenizer, vocabulary)}, std::move(program)));
}

}  // namespace lockstep::constraint
