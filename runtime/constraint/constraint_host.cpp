#include "runtime/constraint/constraint_host.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "runtime/constraint/constraint_wire.h"
#include "runtime/core/memory_file.h"

namespace lockstep::constraint {
namespace {

constexpr size_t kMostMessage = 4096;  // bytes to the host or to a constraint

// Sanitizers reserve memory that would count, and slow a mask several times.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kHasSanitizer = true;
#else
constexpr bool kHasSanitizer = false;
#endif
constexpr int kMaskSlowdown = kHasSanitizer ? 8 : 1;

/// Processor time of this process, which the kernel ends when it has used up its allowance.
class Allowance {
 public:
  explicit Allowance(Duration most) : most_(most), left_(most) {}

  /// Counts from now on.
  void begin() const { set(left_); }
  /// Counts no longer; `refill` is added for the next time.
  void end(Duration refill) {
    itimerval rest{};
    ::getitimer(ITIMER_PROF, &rest);
    const Duration left = std::chrono::seconds(rest.it_value.tv_sec) + std::chrono::microseconds(rest.it_value.tv_usec);
    left_ = std::clamp(left + refill, Duration(std::chrono::milliseconds(1)), most_);
    set(Duration::zero());
  }

 private:
  static void set(Duration time) {
    const auto microseconds = std::chrono::ceil<std::chrono::microseconds>(time).count();
    itimerval timer{};
    timer.it_value = {.tv_sec = microseconds / 1'000'000, .tv_usec = microseconds % 1'000'000};
    ::setitimer(ITIMER_PROF, &timer, nullptr);
  }

  const Duration most_;
  Duration left_;
};

void limit_memory(Bytes memory) {
  if (kHasSanitizer) return;
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto most = static_cast<rlim_t>(memory.value) + static_cast<rlim_t>(used.ru_maxrss) * 1024;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_DATA, &limit);
}

/// A constraint has no better answer to memory that it needs.
Error as_refusal(Error error) {
  if (error.kind == ErrorKind::kResourceExhausted) error.kind = ErrorKind::kInvalidArgument;
  return error;
}

/// The process of one answer: a mask, then for each token another one.
void run_answer(const Grammar& grammar, const std::vector<int32_t>& end_tokens, int socket, size_t vocabulary,
                const IsolationLimits& limits) {
  Allowance allowance(kMaskSlowdown * limits.most_mask);
  std::vector<int32_t> bits(mask_words(vocabulary));
  const auto failed = [&](Error error) { send_datagram(socket, failure_bytes(as_refusal(std::move(error)))); };
  allowance.begin();
  const auto matcher = grammar.begin(end_tokens);
  if (!matcher.has_value()) return failed(matcher.error());
  while (true) {
    const Result<void> filled = matcher.value()->fill(bits);
    if (!filled.has_value()) return failed(filled.error());
    allowance.end(kMaskSlowdown * limits.mask);
    if (!send_datagram(socket, kDone + to_bytes(std::span<const int32_t>(bits)))) return;
    const auto token = receive_datagram(socket, sizeof(int32_t), std::nullopt);
    if (!token || token->bytes.size() != sizeof(int32_t)) return;
    allowance.begin();
    const Result<void> accepted = matcher.value()->accept(parse_numbers(token->bytes).front());
    if (!accepted.has_value()) return failed(accepted.error());
    if (matcher.value()->has_ended()) return;
  }
}

/// Calls `run` in a process of its own, which ends with it: without what the host's destructors and buffers would do.
template <typename Run>
void fork_process(const Run& run) {
  if (::fork() != 0) return;
  run();
  ::_exit(0);
}

/// The process of one constraint: compiles it, then starts its answers until the engine has dropped it.
void run_constraint(GrammarCompiler& compiler, const CheckedFormat& format, Descriptor socket,
                    const IsolationLimits& limits) {
  limit_memory(limits.memory);
  Allowance allowance(limits.compile);
  allowance.begin();
  const auto grammar = compile_and_try(compiler, format);
  allowance.end(Duration::zero());
  if (!grammar.has_value()) {
    send_datagram(socket.get(), failure_bytes(as_refusal(grammar.error())));
    return;
  }
  if (!send_datagram(socket.get(), std::string(1, kDone))) return;
  while (const auto message = receive_datagram(socket.get(), kMostMessage, std::nullopt)) {
    if (message->descriptors.size() != 1) continue;
    fork_process([&] {
      socket.close();  // else its end would not be seen while this answer runs
      run_answer(*grammar.value(), parse_numbers(message->bytes), message->descriptors.front().get(),
                 compiler.vocabulary(), limits);
    });
  }
}

}  // namespace

void host_constraints(int socket_number, int setup_number) {
  Descriptor socket(socket_number);
  std::optional<HostSetup> setup;
  if (const auto bytes = read_file(Descriptor(setup_number))) setup = parse_setup(*bytes);
  if (!setup) return;
  const IsolationLimits limits = setup->limits;
  const auto compiler = make_grammar_compiler(std::move(setup->table));
  if (!compiler.has_value()) return;
  ::signal(SIGCHLD, SIG_IGN);  // the kernel reaps
  // A launcher sends these to all processes of a job; open requests may end before the engine closes the socket.
  for (const int number : {SIGTERM, SIGINT}) ::signal(number, SIG_IGN);
  while (auto message = receive_datagram(socket.get(), kMostMessage, std::nullopt)) {
    if (message->descriptors.size() != kMostDescriptors) continue;
    const auto bytes = read_file(message->descriptors[1]);
    const auto format = bytes ? parse_format(*bytes) : std::nullopt;
    if (!format) continue;
    compiler.value()->prepare(*format);
    fork_process([&] {
      socket.close();
      run_constraint(*compiler.value(), *format, std::move(message->descriptors[0]), limits);
    });
  }
}

}  // namespace lockstep::constraint
