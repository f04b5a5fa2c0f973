// Execution of kernels on the CPU: each thread of a block is a fiber.
//
// A fiber runs until it meets others (a barrier, an operation of its warp) or looks again later, then the next one
// runs. Blocks run one after the other, or side by side where a launch is cooperative. What a GPU leaves undefined
// shows itself: fresh shared memory and the destinations of unfinished copies are NaN, lanes that part are named,
// threads can run in several orders.
//
// The state of a grid belongs to the system's thread that runs it, so ranks that are threads run grids side by side.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::simt {

constexpr int kWarp = 32;

/// The order in which threads, and blocks, run.
enum class Order { kUp, kDown, kShuffled };

/// A kernel: `body` runs one thread with the launch's parameters.
struct KernelEntry {
  const char* name = nullptr;
  size_t parameter_bytes = 0;
  int most_threads = 0;  // of a block
  void (*body)(const void* parameters) = nullptr;
};

/// A kernel of the program or library; null if there is none of this name.
const KernelEntry* find_kernel(std::string_view name);
/// Adds a kernel before main, by a static object beside it.
struct Registration {
  explicit Registration(const KernelEntry& entry);
};

/// A launch.
struct Grid {
  int blocks = 1;
  int threads = 1;          // of a block
  size_t shared_bytes = 0;  // dynamic, of a block
  bool side_by_side = false;
  bool starts_early = false;  // every thread has to call follow_previous
  Order order = Order::kUp;
};

/// Runs a grid to its end. Returns what is wrong with it, with file and line; empty: nothing. `stop` (may be null) ends
/// a grid that waits, as a lost device would.
std::string run(const KernelEntry& kernel, const Grid& grid, const void* parameters,
                const std::atomic<bool>* stop = nullptr);

/// A launch of which some blocks run up to follow_previous, with memory as it is before the launch ahead: what they
/// read there must not be of that launch. Started at most one ahead of the launch that runs, on the same thread.
class EarlyGrid {
 public:
  EarlyGrid(const KernelEntry& kernel, const Grid& grid, const void* parameters,
            const std::atomic<bool>* stop = nullptr);
  ~EarlyGrid();
  EarlyGrid(const EarlyGrid&) = delete;
  EarlyGrid& operator=(const EarlyGrid&) = delete;

  /// Before the launch ahead runs.
  void start();
  /// After it; returns as `run` does.
  std::string finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// For device code, of the calling fiber.

/// A place in a kernel.
struct Site {
  const char* operation;
  const char* file;
  int line;
};

int thread_index();
int thread_count();
int block_index();
int block_count();
/// The block's dynamic shared memory; an error where it is smaller than `bytes`.
void* shared_memory(size_t bytes, const Site& site);
/// Waits for every thread of the block.
void meet_block(const Site& site);
/// Waits for the 32 lanes of the warp, which have to be at the same operation of the same line.
void meet_warp(const Site& site);
/// Waits until the launch ahead has run, where this one has started early.
void follow_previous(const Site& site);
/// Lets other threads run.
void look_later();
/// Ends the grid with an error.
[[noreturn]] void fail(const std::string& what);

/// Places 16 bytes in shared memory as soon as the copy is waited for; until then they are NaN. Of `src` the first
/// `bytes` are read; the others become zeros.
void copy_async_16(void* dst, const void* src, int bytes = 16);
void commit_copies();
/// Finishes all groups of copies but the newest `pending`.
void wait_copies(int pending);

/// Memory in which the lanes of a warp show each other values, kShown apart; two halves, used in turn.
constexpr size_t kShown = 64;
std::byte* shown(int lane);
void turn_shown();

/// Shows `value` to the warp and returns after all lanes have.
template <typename T>
void show(const T& value, const Site& site) {
  static_assert(sizeof(T) <= kShown);
  std::memcpy(shown(thread_index() % kWarp), &value, sizeof value);
  meet_warp(site);
}
template <typename T>
T seen_from(int lane) {
  T value;
  std::memcpy(&value, shown(lane), sizeof value);
  return value;
}

/// Elements of the arrays that the lanes of a warp show; for many reads, which look up the lanes once.
template <typename Element>
class SeenArrays {
 public:
  Element from(int lane, int index) const {
    Element value;
    std::memcpy(&value, first_ + static_cast<size_t>(lane) * kShown + static_cast<size_t>(index) * sizeof value,
                sizeof value);
    return value;
  }

 private:
  const std::byte* first_ = shown(0);
};

}  // namespace lockstep::simt
