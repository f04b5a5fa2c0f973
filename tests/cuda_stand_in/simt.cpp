// One file: fibers, blocks and meetings share the state of the grid that runs.
#include "tests/cuda_stand_in/simt.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <boost/context/detail/fcontext.hpp>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/cuda_stand_in/fiber_checks.h"

namespace lockstep::simt {
namespace {

namespace fiber = boost::context::detail;

constexpr size_t kStack = 64 * 1024;
constexpr int kNotANumber = 0xff;  // each byte of it: NaN in every floating-point type

enum class Doing { kRuns, kMeetsWarp, kMeetsBlock, kFollows, kEnded };

struct Copy {
  std::byte* dst;
  std::array<std::byte, 16> bytes;
};

struct Thread {
  int index = 0;
  Doing state = Doing::kRuns;
  Site site{};
  fiber::fcontext_t context = nullptr;
  CheckedStack checked;
  int half = 0;                        // of the warp's shown values
  std::array<unsigned, 2> meetings{};  // so far: of the block, of the warp
  bool has_followed = false;
  std::vector<Copy> open_copies;
  std::vector<std::vector<Copy>> copy_groups;
};

/// Two places in turn, so that a meeting orders nothing that follows the next one.
using Meetings = std::array<char, 2>;

struct Block {
  int index = 0;
  Meetings meetings{};
  std::vector<Meetings> warp_meetings;
  std::unique_ptr<std::byte[]> shared;
  std::vector<Thread> threads;
  std::vector<std::array<std::array<std::byte, kShown>, 2 * kWarp>> shown;  // by warp; [half][lane]
  std::byte* stacks = nullptr;
};

/// Stacks of the fibers of one system thread, kept for its next grid.
class Stacks {
 public:
  ~Stacks() { release(); }
  std::byte* of(size_t count) {
    const size_t bytes = count * kStack;
    if (bytes > bytes_ || kChecksRaces) {  // a fresh map has no history of accesses
      release();
      void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) std::abort();
      memory_ = static_cast<std::byte*>(memory);
      bytes_ = bytes;
    }
    return memory_;
  }

 private:
  void release() {
    if (memory_ == nullptr) return;
    release_checked(memory_, bytes_);
    munmap(memory_, bytes_);
  }

  std::byte* memory_ = nullptr;
  size_t bytes_ = 0;
};

struct Run {
  KernelEntry kernel;
  Grid grid;
  const void* parameters;
  const std::atomic<bool>* stop;
  std::string error;
  Block* block = nullptr;    // of the fiber that runs
  Thread* thread = nullptr;  // that fiber
  fiber::fcontext_t scheduler = nullptr;
  bool is_early = false;  // the launch ahead has not run yet
  CheckedStack checked;   // of the scheduler
};

thread_local Run* current = nullptr;
thread_local Stacks stacks;
thread_local Stacks early_stacks[2];  // of a launch that has started early, and of the next one
thread_local int next_early = 0;

std::vector<KernelEntry>& table() {
  static std::vector<KernelEntry> entries;
  return entries;
}

std::string text_of(const Site& site) {
  const std::string file = site.file;
  return fmt::format("{} ({}:{})", site.operation, file.substr(file.rfind('/') + 1), site.line);
}

bool is_same(const Site& a, const Site& b) {
  if (a.line == b.line && a.operation == b.operation && a.file == b.file) return true;  // mostly the same literals
  return a.line == b.line && std::strcmp(a.operation, b.operation) == 0 && std::strcmp(a.file, b.file) == 0;
}

void to_scheduler() {
  Thread& self = *current->thread;
  order_before(&current->error);  // the end of the grid, which may be an error
  leave(self.checked, current->checked, self.state == Doing::kEnded);
  current->scheduler = fiber::jump_fcontext(current->scheduler, nullptr).fctx;
  arrive(self.checked, current->checked);
}

void run_thread(Thread& thread) {
  current->thread = &thread;
  leave(current->checked, thread.checked);
  thread.context = fiber::jump_fcontext(thread.context, nullptr).fctx;
  arrive(current->checked, thread.checked);
}

void begin_fiber(fiber::transfer_t from) {
  current->scheduler = from.fctx;
  arrive(current->thread->checked, current->checked);
  order_after(current);  // the launch
  current->kernel.body(current->parameters);
  Thread& self = *current->thread;
  if (!self.open_copies.empty() || !self.copy_groups.empty()) fail("a thread ended with copies under way");
  if (current->grid.starts_early && !self.has_followed) fail("a thread of an early launch ended without following");
  self.state = Doing::kEnded;
  to_scheduler();
}

std::vector<int> order_of(int count, Order order, unsigned seed) {
  std::vector<int> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), 0);
  if (order == Order::kDown) std::reverse(indices.begin(), indices.end());
  if (order == Order::kShuffled) std::shuffle(indices.begin(), indices.end(), std::mt19937(seed));
  return indices;
}

void make_block(Block& block, int index, std::byte* memory) {
  const Grid& grid = current->grid;
  const auto threads = static_cast<size_t>(grid.threads);
  block.index = index;
  block.stacks = memory;
  block.shared.reset(new std::byte[grid.shared_bytes]);
  std::memset(block.shared.get(), kNotANumber, grid.shared_bytes);
  // Ends after the new threads are made, because a sanitizer's number of an ended one is given again.
  std::vector<Thread> earlier = std::exchange(block.threads, std::vector<Thread>(threads));
  block.warp_meetings.resize((threads + kWarp - 1) / kWarp);
  if (kChecksRaces) decltype(block.shown)().swap(block.shown);  // new memory: what earlier blocks showed is no race
  block.shown.resize((threads + kWarp - 1) / kWarp);
  for (size_t i = 0; i < threads; ++i) {
    block.threads[i].index = static_cast<int>(i);
    block.threads[i].checked = make_checked(memory + i * kStack, kStack);
    block.threads[i].context = fiber::make_fcontext(memory + (i + 1) * kStack, kStack, begin_fiber);
  }
  for (Thread& thread : earlier) end_checked(thread.checked);
}

/// Runs every thread that can run once. Returns whether one could.
bool run_threads(Block& block, const std::vector<int>& order) {
  bool ran = false;
  for (const int index : order) {
    Thread& thread = block.threads[static_cast<size_t>(index)];
    if (thread.state != Doing::kRuns) continue;
    ran = true;
    current->block = &block;
    run_thread(thread);
    if (!current->error.empty()) return true;
  }
  return ran;
}

/// Lets the lanes of a warp go on if all of them meet; names them if they part.
bool release_warp(Block& block, size_t warp) {
  const size_t begin = warp * kWarp;
  const size_t end = std::min(begin + kWarp, block.threads.size());
  const std::span lanes(block.threads.begin() + static_cast<std::ptrdiff_t>(begin), end - begin);
  const auto is_at_warp = [](const Thread& lane) { return lane.state == Doing::kMeetsWarp; };
  const auto first = std::find_if(lanes.begin(), lanes.end(), is_at_warp);
  if (first == lanes.end()) return false;
  for (const Thread& lane : lanes) {
    if (lane.state == Doing::kRuns || lane.state == Doing::kFollows) return false;  // it goes on later
    if (is_at_warp(lane) && is_same(lane.site, first->site)) continue;
    current->error = fmt::format("lanes part: lane {} of block {} is at {}, lane {} {}", first->index % kWarp,
                                 block.index, text_of(first->site), lane.index % kWarp,
                                 lane.state == Doing::kEnded ? "has ended" : "at " + text_of(lane.site));
    return true;
  }
  if (lanes.size() != kWarp) {
    current->error = fmt::format("a warp of {} lanes at {}, expected 32", lanes.size(), text_of(first->site));
    return true;
  }
  for (Thread& lane : lanes) lane.state = Doing::kRuns;
  return true;
}

bool release_block(Block& block) {
  const auto is_at_block = [](const Thread& thread) { return thread.state == Doing::kMeetsBlock; };
  const auto first = std::find_if(block.threads.begin(), block.threads.end(), is_at_block);
  if (first == block.threads.end()) return false;
  for (const Thread& thread : block.threads) {
    if (thread.state == Doing::kRuns || thread.state == Doing::kMeetsWarp || thread.state == Doing::kFollows)
      return false;
    if (is_at_block(thread) && is_same(thread.site, first->site)) continue;
    current->error = fmt::format("threads part: thread {} of block {} is at {}, thread {} {}", first->index,
                                 block.index, text_of(first->site), thread.index,
                                 thread.state == Doing::kEnded ? "has ended" : "at " + text_of(thread.site));
    return true;
  }
  for (Thread& thread : block.threads) thread.state = Doing::kRuns;
  return true;
}

bool has_ended(const Block& block) {
  return std::all_of(block.threads.begin(), block.threads.end(),
                     [](const Thread& thread) { return thread.state == Doing::kEnded; });
}

/// Runs blocks side by side until all have ended.
void run_blocks(std::span<Block> blocks, const std::vector<int>& order) {
  while (current->error.empty()) {
    bool goes_on = false;
    bool all_ended = true;
    for (Block& block : blocks) {
      if (has_ended(block)) continue;
      all_ended = false;
      goes_on |= run_threads(block, order);
      for (size_t warp = 0; warp < block.shown.size() && current->error.empty(); ++warp) {
        goes_on |= release_warp(block, warp);
      }
      if (current->error.empty()) goes_on |= release_block(block);
      if (!current->error.empty()) return;
    }
    if (all_ended) return;
    if (!goes_on && current->is_early) return;
    if (!goes_on) current->error = "deadlock: every thread waits";
    if (current->stop != nullptr && current->stop->load()) current->error = "the device was lost";
  }
}

void end_checked(std::span<Block> blocks) {
  for (Block& block : blocks) {
    for (Thread& thread : block.threads) end_checked(thread.checked);
  }
}

/// Runs blocks one after the other, or some at once.
void run_in_turn(std::span<const int> blocks, size_t at_once, const std::vector<int>& threads) {
  std::vector<Block> resident(at_once);
  for (size_t begin = 0; begin < blocks.size() && current->error.empty(); begin += at_once) {
    std::byte* memory = stacks.of(at_once * threads.size());
    for (size_t i = 0; i < at_once; ++i) {
      make_block(resident[i], blocks[begin + i], memory + i * threads.size() * kStack);
    }
    run_blocks(resident, threads);
  }
  end_checked(resident);
}

std::string end_of(Run& run) {
  order_after(&run.error);
  current = nullptr;
  return run.error.empty() ? std::string() : fmt::format("{}: {}", run.kernel.name, run.error);
}

std::string too_many_threads(const KernelEntry& kernel, const Grid& grid) {
  return fmt::format("{}: found {} threads a block, expected at most {}", kernel.name, grid.threads,
                     kernel.most_threads);
}

/// Waits until the other threads of a block or warp have come to the same place.
void meet(Doing state, const Site& site, Meetings& meetings) {
  Thread& self = *current->thread;
  char* const place = &meetings[self.meetings[state == Doing::kMeetsWarp ? 1 : 0]++ % 2];
  order_before(place);
  self.state = state;
  self.site = site;
  to_scheduler();
  order_after(place);
}

}  // namespace

const KernelEntry* find_kernel(std::string_view name) {
  const auto found =
      std::find_if(table().begin(), table().end(), [&](const KernelEntry& entry) { return entry.name == name; });
  return found == table().end() ? nullptr : &*found;
}

Registration::Registration(const KernelEntry& entry) { table().push_back(entry); }

std::string run(const KernelEntry& kernel, const Grid& grid, const void* parameters, const std::atomic<bool>* stop) {
  if (grid.threads > kernel.most_threads) return too_many_threads(kernel, grid);
  Run run{kernel, grid, parameters, stop, {}};
  current = &run;
  order_before(&run);
  const CheckedScheduler scheduler(run.checked);
  const std::vector<int> blocks = order_of(grid.blocks, grid.order, 1);
  run_in_turn(blocks, grid.side_by_side ? blocks.size() : 1, order_of(grid.threads, grid.order, 2));
  return end_of(run);
}

/// The early blocks are the first ones.
struct EarlyGrid::State {
  Run run;
  std::vector<int> blocks;
  std::vector<int> threads;
  std::vector<Block> early;
};

EarlyGrid::EarlyGrid(const KernelEntry& kernel, const Grid& grid, const void* parameters, const std::atomic<bool>* stop)
    : state_(new State{.run = {kernel, grid, parameters, stop, {}},
                       .blocks = order_of(grid.blocks, grid.order, 1),
                       .threads = order_of(grid.threads, grid.order, 2),
                       .early = {}}) {}

EarlyGrid::~EarlyGrid() = default;

void EarlyGrid::start() {
  constexpr size_t kEarlyBlocks = 3;
  if (state_->run.grid.threads > state_->run.kernel.most_threads) return;  // finish says so
  current = &state_->run;
  order_before(&state_->run);
  const CheckedScheduler scheduler(state_->run.checked);
  state_->run.is_early = true;
  state_->early.resize(std::min(state_->blocks.size(), kEarlyBlocks));
  std::byte* memory = early_stacks[next_early].of(state_->early.size() * state_->threads.size());
  for (size_t i = 0; i < state_->early.size(); ++i) {
    make_block(state_->early[i], state_->blocks[i], memory + i * state_->threads.size() * kStack);
  }
  next_early ^= 1;
  run_blocks(state_->early, state_->threads);
  state_->run.is_early = false;
  current = nullptr;
}

std::string EarlyGrid::finish() {
  if (state_->run.grid.threads > state_->run.kernel.most_threads)
    return too_many_threads(state_->run.kernel, state_->run.grid);
  current = &state_->run;
  order_before(&state_->run);
  const CheckedScheduler scheduler(state_->run.checked);
  for (Block& block : state_->early) {
    for (Thread& thread : block.threads) {
      if (thread.state == Doing::kFollows) thread.state = Doing::kRuns;
    }
  }
  if (current->error.empty()) run_blocks(state_->early, state_->threads);
  end_checked(state_->early);
  run_in_turn(std::span(state_->blocks).subspan(state_->early.size()), 1, state_->threads);
  return end_of(state_->run);
}

int thread_index() { return current->thread->index; }
int thread_count() { return current->grid.threads; }
int block_index() { return current->block->index; }
int block_count() { return current->grid.blocks; }

void* shared_memory(size_t bytes, const Site& site) {
  if (bytes > current->grid.shared_bytes) {
    fail(fmt::format("{}: found {} bytes of shared memory in the launch, expected {}", text_of(site),
                     current->grid.shared_bytes, bytes));
  }
  return current->block->shared.get();
}

void meet_block(const Site& site) { meet(Doing::kMeetsBlock, site, current->block->meetings); }

void meet_warp(const Site& site) {
  const auto warp = static_cast<size_t>(current->thread->index) / kWarp;
  meet(Doing::kMeetsWarp, site, current->block->warp_meetings[warp]);
}

void follow_previous(const Site& site) {
  current->thread->has_followed = true;
  if (!current->is_early) return;
  current->thread->state = Doing::kFollows;
  current->thread->site = site;
  to_scheduler();
  order_after(current);  // the launch ahead
}

void look_later() { to_scheduler(); }

void fail(const std::string& what) {
  current->error = fmt::format("{} (thread {} of block {})", what, current->thread->index, current->block->index);
  for (;;) to_scheduler();  // which does not come back
}

void copy_async_16(void* dst, const void* src, int bytes) {
  Copy copy{static_cast<std::byte*>(dst), {}};
  if (reinterpret_cast<uintptr_t>(dst) % 16 != 0 || reinterpret_cast<uintptr_t>(src) % 16 != 0) {
    fail("a copy of 16 bytes is not aligned to 16");
  }
  if (bytes < 0 || bytes > 16) fail("a copy of 16 bytes reads 0 to 16");
  if (bytes > 0) std::memcpy(copy.bytes.data(), src, static_cast<size_t>(bytes));
  std::memset(dst, kNotANumber, copy.bytes.size());
  current->thread->open_copies.push_back(copy);
}

void commit_copies() {
  Thread& self = *current->thread;
  self.copy_groups.push_back(std::move(self.open_copies));
  self.open_copies.clear();
}

void wait_copies(int pending) {
  Thread& self = *current->thread;
  while (self.copy_groups.size() > static_cast<size_t>(pending)) {
    for (const Copy& copy : self.copy_groups.front()) std::memcpy(copy.dst, copy.bytes.data(), copy.bytes.size());
    self.copy_groups.erase(self.copy_groups.begin());
  }
}

std::byte* shown(int lane) {
  const Thread& self = *current->thread;
  auto& warp = current->block->shown[static_cast<size_t>(self.index) / kWarp];
  return warp[static_cast<size_t>(self.half * kWarp + lane)].data();
}

void turn_shown() { current->thread->half ^= 1; }

}  // namespace lockstep::simt
