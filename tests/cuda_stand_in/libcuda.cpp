// One file: all calls share one state under one mutex. Work takes that mutex too, but not the door that calls go
// through: a call that waits for a device keeps the others out while work goes on, as in a driver.
#include "tests/cuda_stand_in/libcuda.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/cuda/abi.h"
#include "tests/cuda_stand_in/cubin.h"
#include "tests/cuda_stand_in/settings.h"
#include "tests/cuda_stand_in/simt.h"
#include "tests/cuda_stand_in/stream_work.h"

namespace lockstep::cu {

CUresult lose(CUresult status);

namespace {

/// A thread that runs the work of a stream, in order.
class Worker {
 public:
  Worker() : thread_([this] { run(); }) {}
  ~Worker() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wake_.notify_one();
    thread_.join();
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void add(std::function<CUresult()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
      ++added_;
    }
    wake_.notify_one();
  }
  int64_t added() const { return added_; }
  bool has_done(int64_t ticket) const { return done_.load(std::memory_order_acquire) >= ticket; }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return ends_ || !work_.empty(); });
      if (work_.empty()) return;
      const std::function<CUresult()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (const CUresult status = work(); status != CUDA_SUCCESS) lose(status);
      done_.fetch_add(1, std::memory_order_release);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<CUresult()>> work_;
  bool ends_ = false;
  int64_t added_ = 0;  // of the thread that enqueues
  std::atomic<int64_t> done_ = 0;
  std::thread thread_;
};

}  // namespace

/// Work of a stream.
struct Work {
  std::function<CUresult()> run;
  std::function<void()> start;  // of a launch that may start before the kernel ahead has run; empty: it may not
  bool is_kernel = false;
  bool is_of_hosts = false;  // waits for another host, whose driver is another one, also where it is in this process
};

extern "C" {

struct CUctx_st {
  int device = 0;
  std::set<CUctx_st*> peers;  // whose memory it may use
};

struct CUgraph_st {
  std::vector<Work> nodes;
};

struct CUgraphExec_st {
  std::vector<Work> nodes;
};

struct CUstream_st {
  std::vector<std::function<CUresult()>> work;  // lazy: not yet run
  std::unique_ptr<Worker> worker;               // threaded
  std::unique_ptr<CUgraph_st> capture;
  std::thread::id captured_by;
  bool is_invalid = false;  // the capture has met a call that it cannot hold
};

struct CUevent_st {
  CUstream stream = nullptr;
  int64_t ticket = 0;  // threaded: the work before it
  bool is_timed = false;
  // Shared with the work that records it: an event may be destroyed before that.
  std::shared_ptr<std::chrono::steady_clock::time_point> at = std::make_shared<std::chrono::steady_clock::time_point>();
};

struct CUmod_st {
  std::map<std::string, std::unique_ptr<CUfunc_st>, std::less<>> functions;
};

struct CUfunc_st {
  const simt::KernelEntry* entry = nullptr;
  int most_dynamic_shared = 48 * 1024;
};

}  // extern "C"

namespace {

constexpr size_t kPage = size_t{2} << 20;
constexpr int kSharedOfBlock = 227 * 1024;
constexpr int kMultiprocessors = 4;
constexpr int kNotANumber = 0xff;

enum class Pending { kEager, kLazy, kThreaded };

struct Fault {
  FaultCalls calls;
  CUresult status = CUDA_SUCCESS;
};

struct Settings {
  Pending pending = Pending::kEager;
  simt::Order order = simt::Order::kUp;
  int devices = 1;
  int version = 13000;
  int capability = 90;
  size_t memory = size_t{1} << 30;
  std::map<std::string, Fault, std::less<>> faults;
};

void read_word(const SettingWord& word, Settings& settings) {
  const auto number = [&] { return word.number(word.value); };
  if (!word.nth.empty()) {
    settings.faults[std::string(word.key)] = {fault_calls(word), static_cast<CUresult>(number())};
  } else if (word.key == "lazy") {
    settings.pending = Pending::kLazy;
  } else if (word.key == "threaded") {
    settings.pending = Pending::kThreaded;
  } else if (word.key == "down") {
    settings.order = simt::Order::kDown;
  } else if (word.key == "shuffled") {
    settings.order = simt::Order::kShuffled;
  } else if (word.key == "devices") {
    settings.devices = static_cast<int>(number());
  } else if (word.key == "version") {
    settings.version = static_cast<int>(number());
  } else if (word.key == "capability") {
    settings.capability = static_cast<int>(number());
  } else if (word.key == "memory") {
    settings.memory = static_cast<size_t>(number());
  } else if (word.key != "eager") {
    word.refuse("a word of libcuda.h");
  }
}

Settings settings_of_process() {
  Settings settings;
  read_settings("LOCKSTEP_STAND_IN_CUDA", [&](const SettingWord& word) { read_word(word, settings); });
  return settings;
}

/// Memory of cuMemAlloc: a file, so that other processes can open it. It ends at a page that nobody may touch.
struct Block {
  size_t bytes = 0;
  int device = 0;
  int file = -1;
  std::byte* map = nullptr;
  size_t map_bytes = 0;  // without the page behind it
};

/// What a handle of cuIpcGetMemHandle holds.
struct SharedBlock {
  pid_t process = 0;
  int file = -1;
  size_t map_bytes = 0;
  size_t offset = 0;
};

/// A physical page of a device.
struct Page {
  int file = -1;
  int device = 0;
  int maps = 0;
  bool is_released = false;
};

/// A range of reserved addresses.
struct Reservation {
  size_t bytes = 0;
  std::map<size_t, CUmemGenericAllocationHandle> pages;  // by offset
  std::set<size_t> open;                                 // offsets that may be used
};

struct Driver {
  std::recursive_mutex door;
  std::recursive_mutex mutex;
  const Settings settings = settings_of_process();
  bool is_started = false;
  CUresult lost = CUDA_SUCCESS;  // sticky, as after an illegal address
  std::map<std::string, int64_t, std::less<>> calls;
  StandInCounts counts;
  std::vector<std::unique_ptr<CUctx_st>> contexts;
  std::vector<int> retained;
  std::vector<std::unique_ptr<std::atomic<int>>> at_work;  // by device: pieces of work that have begun and not ended
  std::vector<size_t> used;                                // by device
  std::map<CUdeviceptr, Block> memory;
  std::map<CUdeviceptr, std::pair<void*, size_t>> opened;  // maps of other processes' memory
  std::map<const char*, size_t> pinned;
  std::map<CUdeviceptr, Reservation> reservations;
  std::map<CUmemGenericAllocationHandle, Page> pages;
  CUmemGenericAllocationHandle next_page = 1;
  std::set<CUstream> streams;
};

Driver& driver() {
  static Driver* const kDriver = new Driver;  // its users may outlive static objects
  return *kDriver;
}

thread_local CUcontext current = nullptr;

/// What a call locks: the door, then the state. A query goes past the door.
class Call {
 public:
  explicit Call(bool is_query = false) : is_query_(is_query) {}
  void lock() {
    if (!is_query_) driver().door.lock();
    driver().mutex.lock();
  }
  void unlock() {
    driver().mutex.unlock();
    if (!is_query_) driver().door.unlock();
  }

 private:
  const bool is_query_;
};

/// Runs work of a device, in its count.
CUresult run_counted(int device, const std::function<CUresult()>& work) {
  std::atomic<int>& at_work = *driver().at_work[static_cast<size_t>(device)];
  at_work.fetch_add(1);
  const CUresult status = work();
  at_work.fetch_sub(1);
  return status;
}

/// Waits for the work of the current device and keeps other calls out meanwhile: memory is freed so. Called with both
/// locks held once.
void wait_for_device() {
  const std::atomic<int>& at_work = *driver().at_work[static_cast<size_t>(current->device)];
  driver().mutex.unlock();
  while (at_work.load() > 0) std::this_thread::yield();
  driver().mutex.lock();
}

/// Whether [address, address + bytes) is memory of a device that may be used.
bool is_device_memory(CUdeviceptr address, size_t bytes) {
  Driver& all = driver();
  const auto block = all.memory.upper_bound(address);
  if (block != all.memory.begin()) {
    const auto& [begin, size] = *std::prev(block);
    if (address + bytes <= begin + size.bytes) return true;
  }
  const auto range = all.reservations.upper_bound(address);
  if (range == all.reservations.begin()) return false;
  const auto& [begin, reservation] = *std::prev(range);
  if (address + bytes > begin + reservation.bytes) return false;
  for (size_t offset = (address - begin) / kPage * kPage; offset < address - begin + bytes; offset += kPage) {
    if (!reservation.open.contains(offset)) return false;
  }
  return true;
}

bool is_pinned(const void* address, size_t bytes) {
  Driver& all = driver();
  const auto* begin = static_cast<const char*>(address);
  const auto block = all.pinned.upper_bound(begin);
  return block != all.pinned.begin() && begin + bytes <= std::prev(block)->first + std::prev(block)->second;
}

/// Counts a call and returns its planted fault.
CUresult enter(const char* name) {
  Driver& all = driver();
  ++all.counts.calls;
  const int64_t nth = ++all.calls[name];
  const auto fault = all.settings.faults.find(name);
  if (fault == all.settings.faults.end()) return CUDA_SUCCESS;
  return fault->second.calls.hits(nth) ? fault->second.status : CUDA_SUCCESS;
}

/// Refuses a call that a capture of this thread cannot hold, which ends the capture.
CUresult refuse_in_capture() {
  CUresult status = CUDA_SUCCESS;
  for (const CUstream stream : driver().streams) {
    if (stream->capture == nullptr || stream->captured_by != std::this_thread::get_id()) continue;
    stream->is_invalid = true;
    status = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return status;
}

#define LOCKSTEP_ENTER(name)                                                   \
  Call call;                                                                   \
  const std::lock_guard lock(call);                                            \
  if (const CUresult fault = enter(name); fault != CUDA_SUCCESS) return fault; \
  if (!driver().is_started) return CUDA_ERROR_NOT_INITIALIZED
#define LOCKSTEP_ENTER_CONTEXT(name)                         \
  LOCKSTEP_ENTER(name);                                      \
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT; \
  if (driver().lost != CUDA_SUCCESS) return driver().lost
#define LOCKSTEP_ENTER_ALLOCATING(name) \
  LOCKSTEP_ENTER_CONTEXT(name);         \
  ++driver().counts.allocating;         \
  if (const CUresult refused = refuse_in_capture(); refused != CUDA_SUCCESS) return refused

/// Adds work to a stream: recorded, run at once, or kept until a caller waits.
CUresult enqueue(CUstream stream, Work item, std::unique_lock<Call>& lock) {
  Driver& all = driver();
  if (!all.streams.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) {
    if (stream->captured_by != std::this_thread::get_id()) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    stream->capture->nodes.push_back(std::move(item));
    return CUDA_SUCCESS;
  }
  // Outside of a graph nothing starts early.
  std::function<CUresult()> work = std::move(item.run);
  if (!item.is_of_hosts) work = [device = current->device, run = std::move(work)] { return run_counted(device, run); };
  if (all.settings.pending == Pending::kLazy) {
    stream->work.push_back(std::move(work));
    return CUDA_SUCCESS;
  }
  if (all.settings.pending == Pending::kThreaded) {
    stream->worker->add(std::move(work));
    return CUDA_SUCCESS;
  }
  lock.unlock();  // other ranks run while a kernel waits for them
  const CUresult status = work();
  return status == CUDA_SUCCESS ? CUDA_SUCCESS : lose(status);
}

/// Runs what a stream holds.
CUresult drain(CUstream stream, std::unique_lock<Call>& lock) {
  std::vector<std::function<CUresult()>> work = std::move(stream->work);
  stream->work.clear();
  lock.unlock();
  for (const auto& item : work) {
    if (const CUresult status = item(); status != CUDA_SUCCESS) return lose(status);
  }
  lock.lock();
  return driver().lost;
}

/// A copy whose ends are checked when it runs, as a device would.
CUresult copy(CUstream stream, CUdeviceptr device, CUdeviceptr other_device, const void* host, void* dst,
              const void* src, size_t bytes, std::unique_lock<Call>& lock) {
  if (host != nullptr && !is_pinned(host, bytes)) {
    fmt::print(stderr, "[cuda stand-in] a copy of {} bytes with host memory that is not pinned\n", bytes);
    return CUDA_ERROR_INVALID_VALUE;
  }
  return enqueue(
      stream, {[=] {
        {
          const std::lock_guard inner(driver().mutex);
          if (!is_device_memory(device, bytes) || (other_device != 0 && !is_device_memory(other_device, bytes))) {
            fmt::print(stderr, "[cuda stand-in] a copy of {} bytes leaves the memory of the device\n", bytes);
            return CUDA_ERROR_ILLEGAL_ADDRESS;
          }
        }
        std::memmove(dst, src, bytes);
        return CUDA_SUCCESS;
      }},
      lock);
}

int blocks_of_multiprocessor(int threads, size_t shared_bytes) {
  const int by_threads = 2048 / std::max(threads, 1);
  const int by_shared = static_cast<int>(size_t{228 * 1024} / (shared_bytes + 1024));
  return std::min({by_threads, by_shared, 32});
}

}  // namespace

CUresult lose(CUresult status) {
  const std::lock_guard lock(driver().mutex);
  driver().lost = status;
  return status;
}

CUresult enqueue_work(CUstream stream, std::function<CUresult()> work) {
  Call call;
  std::unique_lock lock(call);
  if (driver().lost != CUDA_SUCCESS) return driver().lost;
  return enqueue(stream, {.run = std::move(work), .start = {}}, lock);
}

CUresult count_call(const char* name) {
  const std::lock_guard lock(driver().mutex);
  return enter(name);
}

bool is_memory_of_device(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(driver().mutex);
  return is_device_memory(address, bytes);
}

bool has_current_context() { return current != nullptr; }

void count_objects(int64_t more) {
  const std::lock_guard lock(driver().mutex);
  driver().counts.allocations += more;
}
/// A launch with its parameters.
struct KernelLaunch {
  const simt::KernelEntry& entry;
  const simt::Grid grid;
  const std::vector<std::byte> parameters;
  std::unique_ptr<simt::EarlyGrid> early;

  void start() {
    early = std::make_unique<simt::EarlyGrid>(entry, grid, parameters.data());
    early->start();
  }
  CUresult run() {
    const bool is_early = early != nullptr;
    const std::string wrong = is_early ? early->finish() : simt::run(entry, grid, parameters.data());
    early.reset();
    const std::lock_guard inner(driver().mutex);
    ++driver().counts.launches;
    if (is_early) ++driver().counts.early_launches;
    if (wrong.empty()) return CUDA_SUCCESS;
    fmt::print(stderr, "[cuda stand-in] {}\n", wrong);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
};

extern "C" {

StandInCounts lockstep_stand_in_cuda_counts() {
  const std::lock_guard lock(driver().mutex);
  return driver().counts;
}

CUresult cuInit(unsigned int) {
  const std::lock_guard lock(driver().mutex);
  if (const CUresult fault = enter("Init"); fault != CUDA_SUCCESS) return fault;
  Driver& all = driver();
  if (all.settings.devices == 0) return CUDA_ERROR_NO_DEVICE;
  if (!all.is_started) {
    for (int i = 0; i < all.settings.devices; ++i) {
      all.contexts.push_back(std::make_unique<CUctx_st>(CUctx_st{i, {}}));
      all.retained.push_back(0);
      all.at_work.push_back(std::make_unique<std::atomic<int>>(0));
      all.used.push_back(0);
    }
  }
  all.is_started = true;
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int* version) {
  *version = driver().settings.version;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  LOCKSTEP_ENTER("DeviceGetCount");
  *count = driver().settings.devices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  LOCKSTEP_ENTER("DeviceGet");
  if (ordinal < 0 || ordinal >= driver().settings.devices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  LOCKSTEP_ENTER("DeviceGetName");
  const std::string text = fmt::format("Stand-in GPU {}", device);
  if (static_cast<size_t>(length) <= text.size()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(name, text.c_str(), text.size() + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  LOCKSTEP_ENTER("DeviceGetUuid");
  for (int i = 0; i < 16; ++i) uuid->bytes[i] = static_cast<char>(16 * device + i);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice device) {
  LOCKSTEP_ENTER("DeviceGetPCIBusId");
  const std::string bus = fmt::format("0000:{:02x}:00.0", device + 1);
  if (static_cast<size_t>(length) <= bus.size()) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(text, bus.c_str(), bus.size() + 1);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  LOCKSTEP_ENTER("DeviceTotalMem");
  *bytes = driver().settings.memory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  LOCKSTEP_ENTER("DeviceGetAttribute");
  const int capability = driver().settings.capability;
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *value = 1980000; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = kMultiprocessors; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *value = 2619000; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *value = 5120; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *value = 50 << 20; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = capability / 10; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = capability % 10; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH: *value = 1; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *value = kSharedOfBlock; return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: *value = 1; return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  LOCKSTEP_ENTER("DevicePrimaryCtxRetain");
  Driver& all = driver();
  if (device < 0 || device >= all.settings.devices) return CUDA_ERROR_INVALID_DEVICE;
  ++all.retained[static_cast<size_t>(device)];
  ++all.counts.allocations;
  *context = all.contexts[static_cast<size_t>(device)].get();
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  LOCKSTEP_ENTER("DevicePrimaryCtxRelease");
  Driver& all = driver();
  if (device < 0 || device >= all.settings.devices) return CUDA_ERROR_INVALID_DEVICE;
  if (all.retained[static_cast<size_t>(device)] == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --all.counts.allocations;
  if (--all.retained[static_cast<size_t>(device)] == 0 && current == all.contexts[static_cast<size_t>(device)].get()) {
    current = nullptr;
  }
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  LOCKSTEP_ENTER("CtxSetCurrent");
  current = context;
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  LOCKSTEP_ENTER_CONTEXT("MemGetInfo");
  *total = driver().settings.memory;
  *free = *total - driver().used[static_cast<size_t>(current->device)];
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  LOCKSTEP_ENTER_ALLOCATING("MemAlloc");
  Driver& all = driver();
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  size_t& used = all.used[static_cast<size_t>(current->device)];
  if (bytes > all.settings.memory - used) return CUDA_ERROR_OUT_OF_MEMORY;
  constexpr size_t kAlignment = 512, kHostPage = 4096;
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Block block{.bytes = bytes, .device = current->device};
  block.map_bytes = (rounded + kHostPage - 1) / kHostPage * kHostPage;
  block.file = memfd_create("cuda stand-in memory", MFD_CLOEXEC);
  if (block.file < 0 || ftruncate(block.file, static_cast<off_t>(block.map_bytes)) != 0) {
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  void* map = mmap(nullptr, block.map_bytes + kHostPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED ||
      mmap(map, block.map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, block.file, 0) == MAP_FAILED) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  block.map = static_cast<std::byte*>(map);
  std::memset(map, kNotANumber, block.map_bytes);
  *address = reinterpret_cast<CUdeviceptr>(block.map + block.map_bytes - rounded);
  all.memory[*address] = block;
  used += bytes;
  ++all.counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  LOCKSTEP_ENTER_ALLOCATING("MemFree");
  wait_for_device();
  Driver& all = driver();
  const auto block = all.memory.find(address);
  if (block == all.memory.end()) return CUDA_ERROR_INVALID_VALUE;
  const Block& own = block->second;
  all.used[static_cast<size_t>(own.device)] -= own.bytes;
  munmap(own.map, own.map_bytes + 4096);
  close(own.file);
  all.memory.erase(block);
  --all.counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext other, unsigned int flags) {
  LOCKSTEP_ENTER_CONTEXT("CtxEnablePeerAccess");
  if (flags != 0 || other == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (other == current) return CUDA_ERROR_INVALID_DEVICE;
  return current->peers.insert(other).second ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice other) {
  LOCKSTEP_ENTER("DeviceCanAccessPeer");
  const int devices = driver().settings.devices;
  if (device < 0 || device >= devices || other < 0 || other >= devices) return CUDA_ERROR_INVALID_DEVICE;
  *can = device == other ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  LOCKSTEP_ENTER_ALLOCATING("IpcGetMemHandle");
  const auto block = driver().memory.find(address);
  if (block == driver().memory.end()) return CUDA_ERROR_INVALID_VALUE;
  const Block& own = block->second;
  const SharedBlock shared{.process = getpid(),
                           .file = own.file,
                           .map_bytes = own.map_bytes,
                           .offset = static_cast<size_t>(address - reinterpret_cast<CUdeviceptr>(own.map))};
  static_assert(sizeof shared <= sizeof *handle);
  *handle = {};
  std::memcpy(handle->reserved, &shared, sizeof shared);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned int flags) {
  LOCKSTEP_ENTER_ALLOCATING("IpcOpenMemHandle");
  SharedBlock shared;
  std::memcpy(&shared, handle.reserved, sizeof shared);
  if (flags != kIpcPeerAccess) return CUDA_ERROR_INVALID_VALUE;
  if (shared.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const int file = open(fmt::format("/proc/{}/fd/{}", shared.process, shared.file).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  void* map = mmap(nullptr, shared.map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (map == MAP_FAILED) return CUDA_ERROR_OPERATING_SYSTEM;
  *address = reinterpret_cast<CUdeviceptr>(map) + shared.offset;
  driver().opened[*address] = {map, shared.map_bytes};
  ++driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  LOCKSTEP_ENTER_ALLOCATING("IpcCloseMemHandle");
  const auto found = driver().opened.find(address);
  if (found == driver().opened.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(found->second.first, found->second.second);
  driver().opened.erase(found);
  --driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void** address, size_t bytes, unsigned int) {
  LOCKSTEP_ENTER_ALLOCATING("MemHostAlloc");
  if (bytes == 0 || posix_memalign(address, 512, bytes) != 0) return CUDA_ERROR_INVALID_VALUE;
  std::memset(*address, kNotANumber, bytes);
  driver().pinned[static_cast<const char*>(*address)] = bytes;
  driver().counts.pinned_bytes += static_cast<int64_t>(bytes);
  ++driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void* address) {
  LOCKSTEP_ENTER_ALLOCATING("MemFreeHost");
  wait_for_device();
  const auto block = driver().pinned.find(static_cast<const char*>(address));
  if (block == driver().pinned.end()) return CUDA_ERROR_INVALID_VALUE;
  driver().counts.pinned_bytes -= static_cast<int64_t>(block->second);
  driver().pinned.erase(block);
  std::free(address);
  --driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* device, void* host, unsigned int) {
  LOCKSTEP_ENTER_CONTEXT("MemHostGetDevicePointer");
  if (!is_pinned(host, 1)) return CUDA_ERROR_INVALID_VALUE;
  *device = reinterpret_cast<CUdeviceptr>(host);
  return CUDA_SUCCESS;
}

#define LOCKSTEP_ENTER_STREAM_AS(name, is_query)                               \
  Call call(is_query);                                                         \
  std::unique_lock lock(call);                                                 \
  if (const CUresult fault = enter(name); fault != CUDA_SUCCESS) return fault; \
  if (!driver().is_started) return CUDA_ERROR_NOT_INITIALIZED;                 \
  if (current == nullptr) return CUDA_ERROR_INVALID_CONTEXT;                   \
  if (driver().lost != CUDA_SUCCESS) return driver().lost
#define LOCKSTEP_ENTER_STREAM(name) LOCKSTEP_ENTER_STREAM_AS(name, false)

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void* src, size_t bytes, CUstream stream) {
  LOCKSTEP_ENTER_STREAM("MemcpyHtoDAsync");
  return copy(stream, dst, 0, src, reinterpret_cast<void*>(dst), src, bytes, lock);
}

CUresult cuMemcpyDtoHAsync_v2(void* dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  LOCKSTEP_ENTER_STREAM("MemcpyDtoHAsync");
  return copy(stream, src, 0, dst, dst, reinterpret_cast<const void*>(src), bytes, lock);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) {
  LOCKSTEP_ENTER_STREAM("MemcpyDtoDAsync");
  return copy(stream, dst, src, nullptr, reinterpret_cast<void*>(dst), reinterpret_cast<const void*>(src), bytes, lock);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream) {
  LOCKSTEP_ENTER_STREAM("MemsetD8Async");
  return enqueue(stream, {[=] {
                   {
                     const std::lock_guard inner(driver().mutex);
                     if (!is_device_memory(dst, bytes)) return CUDA_ERROR_ILLEGAL_ADDRESS;
                   }
                   std::memset(reinterpret_cast<void*>(dst), value, bytes);
                   return CUDA_SUCCESS;
                 }},
                 lock);
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  LOCKSTEP_ENTER("MemGetAllocationGranularity");
  *granularity = kPage;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr, unsigned long long) {
  LOCKSTEP_ENTER_ALLOCATING("MemAddressReserve");
  if (bytes == 0 || bytes % kPage != 0) return CUDA_ERROR_INVALID_VALUE;
  void* memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  driver().reservations[*address].bytes = bytes;
  ++driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  LOCKSTEP_ENTER_ALLOCATING("MemAddressFree");
  const auto range = driver().reservations.find(address);
  if (range == driver().reservations.end() || range->second.bytes != bytes || !range->second.pages.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(reinterpret_cast<void*>(address), bytes);
  driver().reservations.erase(range);
  --driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp* properties,
                     unsigned long long) {
  LOCKSTEP_ENTER_ALLOCATING("MemCreate");
  Driver& all = driver();
  if (bytes != kPage) return CUDA_ERROR_INVALID_VALUE;
  size_t& used = all.used[static_cast<size_t>(properties->location.id)];
  if (bytes > all.settings.memory - used) return CUDA_ERROR_OUT_OF_MEMORY;
  const int file = memfd_create("cuda stand-in page", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  *handle = all.next_page++;
  all.pages[*handle] = {.file = file, .device = properties->location.id};
  used += bytes;
  ++all.counts.allocations;
  return CUDA_SUCCESS;
}

void free_page(CUmemGenericAllocationHandle handle) {
  Driver& all = driver();
  const Page& page = all.pages[handle];
  close(page.file);
  all.used[static_cast<size_t>(page.device)] -= kPage;
  all.pages.erase(handle);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  LOCKSTEP_ENTER_ALLOCATING("MemRelease");
  const auto page = driver().pages.find(handle);
  if (page == driver().pages.end() || page->second.is_released) return CUDA_ERROR_INVALID_VALUE;
  page->second.is_released = true;
  --driver().counts.allocations;
  if (page->second.maps == 0) free_page(handle);
  return CUDA_SUCCESS;
}

/// The range that holds `address`, and the offset in it.
std::pair<Reservation*, size_t> reservation_of(CUdeviceptr address, size_t bytes) {
  auto& ranges = driver().reservations;
  const auto next = ranges.upper_bound(address);
  if (next == ranges.begin()) return {nullptr, 0};
  auto& [begin, range] = *std::prev(next);
  if (address + bytes > begin + range.bytes || (address - begin) % kPage != 0 || bytes % kPage != 0)
    return {nullptr, 0};
  return {&range, address - begin};
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  LOCKSTEP_ENTER_ALLOCATING("MemMap");
  const auto [range, at] = reservation_of(address, bytes);
  const auto page = driver().pages.find(handle);
  if (range == nullptr || bytes != kPage || offset != 0 || page == driver().pages.end() || range->pages.contains(at)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void* memory = mmap(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      page->second.file, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OPERATING_SYSTEM;
  std::memset(memory, kNotANumber, bytes);
  mprotect(memory, bytes, PROT_NONE);
  ++page->second.maps;
  range->pages[at] = handle;
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  LOCKSTEP_ENTER_ALLOCATING("MemSetAccess");
  const auto [range, at] = reservation_of(address, bytes);
  if (range == nullptr || count != 1 || access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t offset = at; offset < at + bytes; offset += kPage) {
    if (!range->pages.contains(offset)) return CUDA_ERROR_INVALID_VALUE;
    range->open.insert(offset);
  }
  mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  LOCKSTEP_ENTER_ALLOCATING("MemUnmap");
  const auto [range, at] = reservation_of(address, bytes);
  if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t offset = at; offset < at + bytes; offset += kPage) {
    const auto place = range->pages.find(offset);
    if (place == range->pages.end()) return CUDA_ERROR_INVALID_VALUE;
    const CUmemGenericAllocationHandle handle = place->second;
    range->pages.erase(place);
    range->open.erase(offset);
    if (--driver().pages[handle].maps == 0 && driver().pages[handle].is_released) free_page(handle);
  }
  void* memory = mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return memory == MAP_FAILED ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* stream, unsigned int) {
  LOCKSTEP_ENTER_ALLOCATING("StreamCreate");
  *stream = new CUstream_st;
  if (driver().settings.pending == Pending::kThreaded) (*stream)->worker = std::make_unique<Worker>();
  driver().streams.insert(*stream);
  ++driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy_v2(CUstream stream) {
  {
    LOCKSTEP_ENTER("StreamDestroy");
    if (driver().streams.erase(stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
    --driver().counts.allocations;
  }
  delete stream;  // a worker ends its work first, and needs the lock for that
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  LOCKSTEP_ENTER_STREAM("StreamBeginCapture");
  if (!driver().streams.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return CUDA_ERROR_ILLEGAL_STATE;
  stream->capture = std::make_unique<CUgraph_st>();
  stream->captured_by = std::this_thread::get_id();
  stream->is_invalid = false;
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  LOCKSTEP_ENTER_STREAM("StreamEndCapture");
  if (!driver().streams.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (stream->captured_by != std::this_thread::get_id()) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  const std::unique_ptr<CUgraph_st> capture = std::move(stream->capture);
  if (stream->is_invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *graph = new CUgraph_st(*capture);
  ++driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  LOCKSTEP_ENTER_ALLOCATING("EventCreate");
  *event = new CUevent_st{.is_timed = (flags & kEventDisableTiming) == 0};
  ++driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent event) {
  LOCKSTEP_ENTER("EventDestroy");
  delete event;
  --driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  LOCKSTEP_ENTER_STREAM("EventRecord");
  if (const CUresult refused = refuse_in_capture(); refused != CUDA_SUCCESS) return refused;
  event->stream = stream;
  const auto mark = [at = event->at] {
    *at = std::chrono::steady_clock::now();
    return CUDA_SUCCESS;
  };
  const CUresult status = enqueue(stream, {mark}, lock);
  if (stream->worker != nullptr) event->ticket = stream->worker->added();
  return status;
}

CUresult cuEventQuery(CUevent event) {
  LOCKSTEP_ENTER_STREAM_AS("EventQuery", true);
  if (const CUresult refused = refuse_in_capture(); refused != CUDA_SUCCESS) return refused;
  if (event->stream == nullptr) return CUDA_SUCCESS;
  if (event->stream->worker != nullptr && !event->stream->worker->has_done(event->ticket)) {
    return CUDA_ERROR_NOT_READY;
  }
  if (event->stream->work.empty()) return driver().lost;
  if (const CUresult status = drain(event->stream, lock); status != CUDA_SUCCESS) return status;
  return CUDA_ERROR_NOT_READY;  // at the first look nothing is ready
}

CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end) {
  LOCKSTEP_ENTER_CONTEXT("EventElapsedTime");
  if (!begin->is_timed || !end->is_timed) return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = std::chrono::duration<float, std::milli>(*end->at - *begin->at).count();
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode*, size_t* count) {
  LOCKSTEP_ENTER_CONTEXT("GraphGetNodes");
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph) {
  LOCKSTEP_ENTER("GraphDestroy");
  delete graph;
  --driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long) {
  LOCKSTEP_ENTER_ALLOCATING("GraphInstantiate");
  *executable = new CUgraphExec_st{graph->nodes};
  ++driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec, CUstream) {
  LOCKSTEP_ENTER_ALLOCATING("GraphUpload");
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  LOCKSTEP_ENTER_STREAM("GraphLaunch");
  if (const CUresult refused = refuse_in_capture(); refused != CUDA_SUCCESS) return refused;
  ++driver().counts.graph_launches;
  const bool is_of_hosts = std::ranges::any_of(executable->nodes, &Work::is_of_hosts);
  return enqueue(stream,
                 {.run =
                      [executable] {
                        const std::vector<Work>& nodes = executable->nodes;
                        for (size_t i = 0; i < nodes.size(); ++i) {
                          // The next kernel goes as far as it may without this one's results.
                          if (nodes[i].is_kernel && i + 1 < nodes.size() && nodes[i + 1].start) nodes[i + 1].start();
                          if (const CUresult status = nodes[i].run(); status != CUDA_SUCCESS) return status;
                        }
                        return CUDA_SUCCESS;
                      },
                  .start = {},
                  .is_of_hosts = is_of_hosts},
                 lock);
}

CUresult cuGraphExecDestroy(CUgraphExec executable) {
  LOCKSTEP_ENTER("GraphExecDestroy");
  delete executable;
  --driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  LOCKSTEP_ENTER_ALLOCATING("ModuleLoadData");
  if (!is_cubin(image)) return CUDA_ERROR_INVALID_IMAGE;
  if (driver().settings.capability != 90) return CUDA_ERROR_NO_BINARY_FOR_GPU;
  auto loaded = std::make_unique<CUmod_st>();
  for (const std::string_view name : kernel_names(image)) {
    const simt::KernelEntry* entry = simt::find_kernel(name);
    if (entry != nullptr) loaded->functions[entry->name] = std::make_unique<CUfunc_st>(CUfunc_st{.entry = entry});
  }
  *module = loaded.release();
  ++driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  LOCKSTEP_ENTER("ModuleUnload");
  delete module;
  --driver().counts.allocations;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  LOCKSTEP_ENTER_CONTEXT("ModuleGetFunction");
  const auto found = module->functions.find(std::string_view(name));
  if (found == module->functions.end()) return CUDA_ERROR_NOT_FOUND;
  *function = found->second.get();
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction) {
  LOCKSTEP_ENTER_ALLOCATING("FuncLoad");
  return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  LOCKSTEP_ENTER_CONTEXT("FuncGetAttribute");
  *value = 0;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) *value = function->entry->most_threads;
  if (attribute == CU_FUNC_ATTRIBUTE_NUM_REGS) *value = 32;
  if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) *value = function->most_dynamic_shared;
  return CUDA_SUCCESS;
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  LOCKSTEP_ENTER_CONTEXT("FuncSetAttribute");
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > kSharedOfBlock) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  function->most_dynamic_shared = value;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* bytes) {
  LOCKSTEP_ENTER_CONTEXT("FuncGetParamInfo");
  if (index != 0) return CUDA_ERROR_INVALID_VALUE;
  *offset = 0;
  *bytes = function->entry->parameter_bytes;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t shared_bytes) {
  LOCKSTEP_ENTER_CONTEXT("OccupancyMaxActiveBlocksPerMultiprocessor");
  *blocks = blocks_of_multiprocessor(threads, shared_bytes);
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  LOCKSTEP_ENTER_STREAM("LaunchKernelEx");
  const simt::KernelEntry& entry = *function->entry;
  const auto threads = static_cast<int>(config->blockDimX);
  const auto blocks = static_cast<int>(config->gridDimX);
  if (extra != nullptr || config->gridDimY != 1 || config->gridDimZ != 1 || config->blockDimY != 1 ||
      config->blockDimZ != 1 || blocks < 1 || threads < 1 || threads > entry.most_threads ||
      config->sharedMemBytes > static_cast<unsigned int>(function->most_dynamic_shared)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  bool side_by_side = false;
  bool starts_early = false;
  for (unsigned int i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) side_by_side = attribute.value.cooperative != 0;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      starts_early = attribute.value.programmaticStreamSerializationAllowed != 0;
    }
  }
  if (side_by_side && starts_early) return CUDA_ERROR_INVALID_VALUE;  // its blocks would wait for others' room
  if (side_by_side && blocks > kMultiprocessors * blocks_of_multiprocessor(threads, config->sharedMemBytes)) {
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  }
  const auto* first = static_cast<const std::byte*>(parameters[0]);
  const simt::Grid grid{.blocks = blocks,
                        .threads = threads,
                        .shared_bytes = config->sharedMemBytes,
                        .side_by_side = side_by_side,
                        .starts_early = starts_early,
                        .order = driver().settings.order};
  const auto launch = std::make_shared<KernelLaunch>(
      KernelLaunch{entry, grid, std::vector<std::byte>(first, first + entry.parameter_bytes), nullptr});
  Work work{.run = [launch] { return launch->run(); }, .start = {}, .is_kernel = true};
  if (starts_early) work.start = [launch] { launch->start(); };
  return enqueue(config->hStream, std::move(work), lock);
}

const StandInStreams* lockstep_stand_in_cuda_streams() {
  static constexpr StandInStreams kStreams{
      .has_context = [] { return current != nullptr; },
      .has =
          [](CUstream stream) {
            const std::lock_guard lock(driver().mutex);
            return driver().streams.contains(stream);
          },
      .enqueue = [](CUstream stream, std::function<CUresult()> work) -> CUresult {
        LOCKSTEP_ENTER_STREAM("work of another library");
        return enqueue(stream, {.run = std::move(work), .start = {}, .is_of_hosts = true}, lock);
      },
      .is_device_memory =
          [](CUdeviceptr address, size_t bytes) {
            const std::lock_guard lock(driver().mutex);
            return is_device_memory(address, bytes);
          },
  };
  return &kStreams;
}

}  // extern "C"

}  // namespace lockstep::cu
