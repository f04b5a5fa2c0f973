// The stand-in of NCCL: a library with the functions of libnccl.so.2 over the streams of the stand-in of the CUDA
// driver, between threads and between processes of one machine. It moves bytes through memory that its members share.
//
//   member 0   send: into the box 0 → 1   receive: out of the box 1 → 0      each box holds one message, with what its
//   member 1   send: into the box 1 → 0   receive: out of the box 0 → 1      sender says of it; the receiver compares
//
// It is as strict as the library may be: communicators do not block; a call is in its stream when the look that says so
// has been taken, and before that no other call is accepted; memory is the device's; sizes, kinds and order of what
// members send each other are compared.
//
// One file: all calls share one state.
//
// LOCKSTEP_STAND_IN_NCCL sets it up, when the library is loaded: words with commas between them of
//   version=N              (default 22809)
//   NAME:N=STATUS          the N-th call of ncclNAME fails with STATUS; from then on too with NAME:N+=STATUS
//   NAME:N=hang, =die      it never ends; the process is killed
//   Work:N=…               the same of the N-th operation that the device executes: a STATUS comes as an asynchronous
//                          error of an operation that never ends
//   NAME@M:N=…             of member M of its communicator alone
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/cuda_stand_in/libcuda.h"
#include "tests/cuda_stand_in/settings.h"
#include "transport/nccl/abi.h"

namespace lockstep::transport::nccl {
namespace {

using cu::CUresult;
using cu::CUstream;

constexpr int kMostMembers = 16;
constexpr size_t kBoxBytes = size_t{4} << 20;
constexpr uint64_t kNoGather = ~uint64_t{0};

/// A message from one member to another.
struct Box {
  std::atomic<uint64_t> posted;
  std::atomic<uint64_t> taken;
  uint64_t bytes;
  uint64_t gather;  // number of the all-gather that it belongs to, or kNoGather
};

/// What the members of a communicator share: a file without a name, followed by the boxes' contents.
struct Shared {
  std::atomic<int> size;
  std::atomic<int> joined[kMostMembers];
  Box boxes[kMostMembers][kMostMembers];  // from, to
};
constexpr size_t kShared = (sizeof(Shared) + 4095) / 4096 * 4096;
constexpr size_t kFileBytes = kShared + size_t{kMostMembers} * kMostMembers * kBoxBytes;  // sparse

/// What an id holds. Member 0, whose process made it, keeps the file open until all have it.
struct Id {
  pid_t process = 0;
  int file = -1;
};

enum class Effect { kNone, kStatus, kHang, kDie };

struct Fault {
  cu::FaultCalls calls;
  Effect effect = Effect::kNone;
  ncclResult_t status = ncclSuccess;
};

struct Library {
  std::mutex mutex;
  int version = 22809;
  std::map<std::string, Fault, std::less<>> faults;
  std::map<std::string, int64_t, std::less<>> calls;
  std::set<ncclComm_t> communicators;

  Library() {
    cu::read_settings("LOCKSTEP_STAND_IN_NCCL", [&](const cu::SettingWord& word) {
      if (word.nth.empty()) {
        if (word.key != "version") word.refuse("a word of libnccl.cpp");
        version = static_cast<int>(word.number(word.value));
        return;
      }
      Fault fault{.calls = cu::fault_calls(word), .effect = Effect::kStatus};
      if (word.value == "hang") fault.effect = Effect::kHang;
      if (word.value == "die") fault.effect = Effect::kDie;
      if (fault.effect == Effect::kStatus) fault.status = static_cast<ncclResult_t>(word.number(word.value));
      faults[std::string(word.key)] = fault;
    });
  }

  /// Counts a call, of `member` of its communicator or of none, and returns its planted fault.
  Fault enter(std::string_view name, int member = -1) {
    const std::lock_guard lock(mutex);
    Fault hit;
    for (const std::string& key : {std::string(name), fmt::format("{}@{}", name, member)}) {
      const int64_t nth = ++calls[key];
      const auto fault = faults.find(key);
      if (fault != faults.end() && fault->second.calls.hits(nth)) hit = fault->second;
    }
    if (hit.effect == Effect::kDie) raise(SIGKILL);
    return hit;
  }
};

Library& library() {
  static Library* const kLibrary = new Library;  // its users may outlive static objects
  return *kLibrary;
}

/// What a member sends or receives. `peer` may be itself.
struct Message {
  int peer = 0;
  std::byte* memory = nullptr;
  size_t bytes = 0;
};

struct Operation {
  const char* name = "";
  CUstream stream = nullptr;
  std::vector<Message> sent, received;
};

/// The stand-ins of the CUDA driver in this process.
std::vector<const cu::StandInStreams*> drivers() {
  std::vector<std::string> libraries;
  const auto note = [](dl_phdr_info* info, size_t, void* all) {
    static_cast<std::vector<std::string>*>(all)->emplace_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(note, &libraries);
  std::vector<const cu::StandInStreams*> found;
  for (const std::string& file : libraries) {
    void* handle = file.empty() ? nullptr : dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr) continue;
    using Streams = decltype(&cu::lockstep_stand_in_cuda_streams);
    const auto streams = reinterpret_cast<Streams>(dlsym(handle, "lockstep_stand_in_cuda_streams"));
    if (streams != nullptr) found.push_back(streams());
    dlclose(handle);
  }
  return found;
}

/// The state of a communicator, which work in streams keeps.
class Member {
 public:
  Member(void* map, int size, int own) : map_(static_cast<std::byte*>(map)), size_(size), own_(own) {}
  ~Member() { munmap(map_, kFileBytes); }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  int own() const { return own_; }
  int size() const { return size_; }
  void abort() { is_aborted_ = true; }
  void set_async(ncclResult_t error) { async_ = error; }
  ncclResult_t async() const { return async_; }

  bool is_complete() const {
    for (int member = 0; member < size_; ++member) {
      if (shared().joined[member] == 0) return false;
    }
    return true;
  }

  /// Executed by the device.
  CUresult run(const Operation& operation, const cu::StandInStreams& driver) {
    if (is_aborted_) return cu::CUDA_SUCCESS;  // what is left of a graph
    const Fault fault = library().enter("Work", own_);
    if (fault.effect == Effect::kStatus) async_ = fault.status;
    while (fault.effect != Effect::kNone && !is_aborted_) std::this_thread::yield();
    if (is_aborted_) return cu::CUDA_SUCCESS;
    const uint64_t gather = operation.name == std::string_view("AllGather") ? gathers_++ : kNoGather;
    for (const Message& message : operation.sent) {
      if (!driver.is_device_memory(reinterpret_cast<cu::CUdeviceptr>(message.memory), message.bytes)) {
        return refuse(operation, "a source that is no memory of the device", "device memory");
      }
      Box& box = shared().boxes[own_][message.peer];
      if (!wait([&] { return box.taken == box.posted; })) return cu::CUDA_SUCCESS;
      std::memcpy(contents(own_, message.peer), message.memory, message.bytes);
      box.bytes = message.bytes;
      box.gather = gather;
      ++box.posted;
    }
    for (const Message& message : operation.received) {
      if (!driver.is_device_memory(reinterpret_cast<cu::CUdeviceptr>(message.memory), message.bytes)) {
        return refuse(operation, "a destination that is no memory of the device", "device memory");
      }
      Box& box = shared().boxes[message.peer][own_];
      if (!wait([&] { return box.posted > box.taken; })) return cu::CUDA_SUCCESS;
      if (box.bytes != message.bytes || box.gather != gather) {
        return refuse(operation, text_of(box.bytes, box.gather) + fmt::format(" from member {}", message.peer),
                      text_of(message.bytes, gather));
      }
      std::memcpy(message.memory, contents(message.peer, own_), message.bytes);
      ++box.taken;
    }
    return cu::CUDA_SUCCESS;
  }

 private:
  Shared& shared() const { return *reinterpret_cast<Shared*>(map_); }
  std::byte* contents(int from, int to) const {
    return map_ + kShared + (static_cast<size_t>(from) * kMostMembers + static_cast<size_t>(to)) * kBoxBytes;
  }
  template <typename Condition>
  bool wait(Condition is_met) const {
    while (!is_met()) {
      if (is_aborted_) return false;
      std::this_thread::yield();
    }
    return true;
  }
  static std::string text_of(uint64_t bytes, uint64_t gather) {
    return gather == kNoGather ? fmt::format("{} bytes by Send", bytes)
                               : fmt::format("{} bytes by AllGather {}", bytes, gather);
  }
  CUresult refuse(const Operation& operation, std::string_view found, std::string_view expected) const {
    fmt::print(stderr, "[nccl stand-in] {} of member {}: found {}, expected {}\n", operation.name, own_, found,
               expected);
    return cu::CUDA_ERROR_LAUNCH_FAILED;
  }

  std::byte* const map_;
  const int size_;
  const int own_;
  std::atomic<bool> is_aborted_ = false;
  std::atomic<ncclResult_t> async_ = ncclSuccess;
  uint64_t gathers_ = 0;
};

}  // namespace

extern "C" {

struct ncclComm {
  std::shared_ptr<Member> member;
  bool is_ready = false;          // all members have met
  bool hangs = false;             // it never will
  int file = -1;                  // of the id, of the member that made it; until all have opened it
  int looks = 0;                  // at a call that is in progress
  std::optional<Operation> last;  // a call that is not in its stream yet
  std::string told;
};

}  // extern "C"

namespace {

/// Calls between ncclGroupStart and ncclGroupEnd, on this thread.
struct Group {
  int depth = 0;
  ncclComm_t communicator = nullptr;
  Operation operation;
};
thread_local Group group;

ncclResult_t refuse(ncclComm_t communicator, ncclResult_t result, std::string what) {
  fmt::print(stderr, "[nccl stand-in] {}\n", what);
  if (communicator != nullptr) communicator->told = std::move(what);
  return result;
}

/// Whether a communicator takes a call now.
ncclResult_t check(ncclComm_t communicator, std::string_view name) {
  {
    const std::lock_guard lock(library().mutex);
    if (!library().communicators.contains(communicator)) {
      return refuse(nullptr, ncclInvalidArgument, fmt::format("{}: found a communicator that is not alive", name));
    }
  }
  if (!communicator->is_ready || communicator->last) {
    return refuse(communicator, ncclInvalidUsage, fmt::format("{} while an earlier call is in progress", name));
  }
  return ncclSuccess;
}

/// Takes a call: into the group, or as the communicator's next operation.
ncclResult_t take(ncclComm_t communicator, Operation operation) {
  if (const ncclResult_t wrong = check(communicator, operation.name); wrong != ncclSuccess) return wrong;
  const Fault fault = library().enter(operation.name, communicator->member->own());
  if (fault.effect == Effect::kStatus) return fault.status;
  if (fault.effect == Effect::kHang) communicator->hangs = true;
  if (group.depth == 0) {
    communicator->last = std::move(operation);
    return ncclInProgress;
  }
  if (group.communicator != nullptr &&
      (group.communicator != communicator || group.operation.stream != operation.stream)) {
    return refuse(communicator, ncclInvalidUsage, "a group over two communicators or streams, expected one");
  }
  group.communicator = communicator;
  group.operation.name = operation.name;
  group.operation.stream = operation.stream;
  for (const Message& sent : operation.sent) group.operation.sent.push_back(sent);
  for (const Message& received : operation.received) group.operation.received.push_back(received);
  return ncclSuccess;
}

/// Puts the last call into its stream.
ncclResult_t enqueue(ncclComm_t communicator) {
  const Operation operation = *std::exchange(communicator->last, std::nullopt);
  for (const cu::StandInStreams* driver : drivers()) {
    if (!driver->has(operation.stream)) continue;
    const CUresult status = driver->enqueue(operation.stream, [member = communicator->member, operation, driver] {
      return member->run(operation, *driver);
    });
    if (status == cu::CUDA_SUCCESS) return ncclSuccess;
    return refuse(communicator, ncclUnhandledCudaError, fmt::format("status {} of the CUDA driver", int{status}));
  }
  return refuse(communicator, ncclUnhandledCudaError, "found a stream that no CUDA driver has");
}

void close_file(ncclComm_t communicator) {
  if (const int own = std::exchange(communicator->file, -1); own >= 0) close(own);
}

bool fits(size_t bytes) { return bytes <= kBoxBytes; }

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = library().version;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const Fault fault = library().enter("GetUniqueId"); fault.effect == Effect::kStatus) return fault.status;
  const Id made{.process = getpid(), .file = memfd_create("nccl stand-in", MFD_CLOEXEC)};
  if (made.file < 0 || ftruncate(made.file, kFileBytes) != 0) return ncclSystemError;
  *id = {};
  std::memcpy(id->internal, &made, sizeof made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* communicator, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  const Fault fault = library().enter("CommInitRankConfig", rank);
  if (fault.effect == Effect::kStatus) return fault.status;
  if (config->magic != kConfigMagic || config->size < sizeof *config || config->blocking != 0) {
    return refuse(nullptr, ncclInvalidArgument, "found a config of another kind, expected one that does not block");
  }
  if (ranks < 1 || ranks > kMostMembers || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  bool has_context = false;
  for (const cu::StandInStreams* driver : drivers()) has_context = has_context || driver->has_context();
  if (!has_context) return refuse(nullptr, ncclUnhandledCudaError, "found no context of CUDA on this thread");
  Id made;
  std::memcpy(&made, id.internal, sizeof made);
  const int file = open(fmt::format("/proc/{}/fd/{}", made.process, made.file).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return ncclSystemError;
  void* map = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (map == MAP_FAILED) return ncclSystemError;
  auto member = std::make_shared<Member>(map, ranks, rank);
  auto& shared = *static_cast<Shared*>(map);
  int size = 0;
  const bool agrees = shared.size.compare_exchange_strong(size, ranks) || size == ranks;
  if (!agrees || shared.joined[rank].exchange(1) != 0) {
    return refuse(nullptr, ncclInvalidUsage,
                  fmt::format("found member {} of {} twice, or members of groups of other "
                              "sizes",
                              rank, ranks));
  }
  *communicator = new ncclComm{.member = std::move(member),
                               .hangs = fault.effect == Effect::kHang,
                               .file = made.process == getpid() && rank == 0 ? made.file : -1,
                               .last = {},
                               .told = {}};
  const std::lock_guard lock(library().mutex);
  library().communicators.insert(*communicator);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t communicator, ncclResult_t* error) {
  {
    const std::lock_guard lock(library().mutex);
    if (!library().communicators.contains(communicator)) return ncclInvalidArgument;
  }
  *error = communicator->member->async();
  if (*error != ncclSuccess) return ncclSuccess;
  const bool is_busy = !communicator->is_ready || communicator->last;
  if (!is_busy) return ncclSuccess;
  *error = ncclInProgress;  // at the first look nothing is ready
  if (communicator->looks++ == 0 || communicator->hangs) return ncclSuccess;
  if (!communicator->is_ready && !communicator->member->is_complete()) return ncclSuccess;
  communicator->looks = 0;
  communicator->is_ready = true;
  close_file(communicator);
  *error = communicator->last ? enqueue(communicator) : ncclSuccess;
  if (*error != ncclSuccess) communicator->member->set_async(*error);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t communicator) {
  {
    const std::lock_guard lock(library().mutex);
    if (library().communicators.erase(communicator) == 0) {
      return refuse(nullptr, ncclInvalidArgument, "CommAbort: found a communicator that is not alive");
    }
  }
  communicator->member->abort();
  close_file(communicator);
  delete communicator;
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t communicator) {
  return communicator == nullptr ? "" : communicator->told.c_str();
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return refuse(nullptr, ncclInvalidUsage, "GroupEnd without GroupStart");
  if (--group.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(group, Group{});
  if (ended.communicator == nullptr) return ncclSuccess;
  const Fault fault = library().enter("GroupEnd", ended.communicator->member->own());
  if (fault.effect == Effect::kStatus) return fault.status;
  for (const Message& one : ended.operation.sent) {
    const auto same = [&](const Message& other) { return other.peer == one.peer; };
    if (std::ranges::count_if(ended.operation.sent, same) > 1) {
      return refuse(ended.communicator, ncclInvalidUsage, "a group with two sends to one member");
    }
  }
  ended.communicator->last = ended.operation;
  return ncclInProgress;
}

ncclResult_t ncclAllGather(const void* src, void* dst, size_t count_of_each, ncclDataType_t type,
                           ncclComm_t communicator, CUstream_st* stream) {
  if (type != ncclUint8 || !fits(count_of_each) || group.depth > 0) return ncclInvalidArgument;
  Operation operation{.name = "AllGather", .stream = stream, .sent = {}, .received = {}};
  const int members = communicator->member->size();
  for (int peer = 0; peer < members; ++peer) {
    auto* const from = static_cast<std::byte*>(const_cast<void*>(src));
    operation.sent.push_back({peer, from, count_of_each});
    operation.received.push_back(
        {peer, static_cast<std::byte*>(dst) + static_cast<size_t>(peer) * count_of_each, count_of_each});
  }
  return take(communicator, std::move(operation));
}

ncclResult_t ncclSend(const void* src, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      CUstream_st* stream) {
  if (type != ncclUint8 || !fits(count)) return ncclInvalidArgument;
  const Message sent{peer, static_cast<std::byte*>(const_cast<void*>(src)), count};
  return take(communicator, {.name = "Send", .stream = stream, .sent = {sent}, .received = {}});
}

ncclResult_t ncclRecv(void* dst, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator,
                      CUstream_st* stream) {
  if (type != ncclUint8 || !fits(count)) return ncclInvalidArgument;
  return take(
      communicator,
      {.name = "Recv", .stream = stream, .sent = {}, .received = {{peer, static_cast<std::byte*>(dst), count}}});
}

}  // extern "C"

}  // namespace lockstep::transport::nccl
