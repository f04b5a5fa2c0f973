#include "tests/step/watch.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>

#include "tests/allocation_count.h"

namespace lockstep::step {
namespace {

thread_local Asked asked;

/// The function of that name that this program's own hides.
template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

Asked& Asked::operator+=(const Asked& other) {
  allocations += other.allocations;
  locks += other.locks;
  system_calls += other.system_calls;
  waits += other.waits;
  if (other.system_calls > 0) last_call = other.last_call;
  return *this;
}

Asked operator-(const Asked& a, const Asked& b) {
  return {a.allocations - b.allocations, a.locks - b.locks, a.system_calls - b.system_calls, a.waits - b.waits,
          a.last_call};
}

bool can_watch() {
  const pid_t child = fork();
  if (child == 0) {
    const bool is_trapped = watch_this_thread();
    syscall(SYS_getppid);
    _exit(is_trapped && asked.system_calls == 1 ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string to_string(const Asked& asked) {
  return fmt::format("{} allocations, {} locks, {} system calls (the last number {}), {} waits", asked.allocations,
                     asked.locks, asked.system_calls, asked.last_call, asked.waits);
}

Asked asked_by_this_thread() {
  Asked now = asked;
  now.allocations = allocations_of_this_thread();
  return now;
}

#if defined(__x86_64__)

extern "C" long lockstep_system_call(long number, long a, long b, long c, long d, long e, long f);
extern "C" const char lockstep_after_system_call[];
// The one place from which system calls pass the filter.
asm(R"(
.text
.globl lockstep_system_call
lockstep_system_call:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
.globl lockstep_after_system_call
lockstep_after_system_call:
  ret
)");

namespace {

/// Counts the call that was held up, then makes it.
void on_system_call(int, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const long number = info->si_syscall;
  if (number == SYS_sched_yield || number == SYS_futex) {
    ++asked.waits;
  } else {
    ++asked.system_calls;
    asked.last_call = number;
  }
  registers[REG_RAX] = lockstep_system_call(number, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                            registers[REG_R10], registers[REG_R8], registers[REG_R9]);
}

}  // namespace

bool watch_this_thread() {
  struct sigaction action {};
  action.sa_sigaction = on_system_call;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSYS, &action, nullptr) != 0) return false;
  const auto after = reinterpret_cast<uint64_t>(lockstep_after_system_call);
  const auto low = static_cast<uint32_t>(after), high = static_cast<uint32_t>(after >> 32);
  constexpr uint32_t kAddress = offsetof(seccomp_data, instruction_pointer);
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAddress),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAddress + 4),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, high, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
  };
  const sock_fprog program{.len = std::size(filter), .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

#else

bool watch_this_thread() { return false; }

#endif

}  // namespace lockstep::step

using lockstep::step::asked;
using lockstep::step::next;

// std::mutex and std::condition_variable end here. The C library's own locks (of its heap, of its streams) do not; they
// are seen as system calls where they have to wait.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto real = next<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  ++asked.locks;
  return real(mutex);
}
extern "C" int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static const auto real = next<int (*)(pthread_mutex_t*)>("pthread_mutex_trylock");
  ++asked.locks;
  return real(mutex);
}
extern "C" int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  static const auto real = next<int (*)(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  ++asked.locks;
  return real(lock);
}
extern "C" int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  static const auto real = next<int (*)(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  ++asked.locks;
  return real(lock);
}
