// An adapter of one MPI family. Compiled once against each family's mpi.h, which no other source includes, and linked
// to neither: functions, and Open MPI's predefined objects, are looked up in the library that was loaded.
#include "transport/mpi/adapter.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <mpi.h>

#include <array>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

namespace lockstep::transport::mpi {
namespace {

// The used functions, without the prefix MPI_.
// clang-format off
#define LOCKSTEP_MPI_FUNCTIONS(X)                                                              \
  X(Initialized) X(Finalized) X(Init_thread) X(Query_thread) X(Is_thread_main) X(Finalize)     \
  X(Get_library_version) X(Error_string) X(Error_class)                                        \
  X(Comm_rank) X(Comm_size) X(Comm_test_inter) X(Comm_idup) X(Comm_free)                       \
  X(Comm_set_errhandler) X(Comm_get_attr)                                                      \
  X(Isend) X(Irecv) X(Testsome) X(Get_count) X(Cancel) X(Request_free)
// clang-format on

/// MPI's functions and objects in the loaded library, with types from the header.
struct Symbols {
#define LOCKSTEP_MPI_DECLARE(name) decltype(&MPI_##name) name = nullptr;
  LOCKSTEP_MPI_FUNCTIONS(LOCKSTEP_MPI_DECLARE)
#undef LOCKSTEP_MPI_DECLARE
#ifdef OPEN_MPI
  decltype(&MPI_Comm_f2c) Comm_f2c = nullptr;
#endif
  MPI_Comm world{}, no_comm{};
  MPI_Request no_request{};
  MPI_Datatype byte{};
  MPI_Errhandler errors_return{};
};

/// Serialises the calls of all threads of the process, whichever object makes them.
constinit std::mutex calls;

Result<Symbols> find_symbols(void* handle) {
  Symbols symbols;
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& symbol) {
    symbol = reinterpret_cast<std::remove_reference_t<decltype(symbol)>>(dlsym(handle, name));
    if (symbol == nullptr && missing == nullptr) missing = name;
  };
#define LOCKSTEP_MPI_FIND(name) find("MPI_" #name, symbols.name);
  LOCKSTEP_MPI_FUNCTIONS(LOCKSTEP_MPI_FIND)
#undef LOCKSTEP_MPI_FIND
#ifdef OPEN_MPI  // its predefined objects are variables of the library, MPICH's are numbers
  find("MPI_Comm_f2c", symbols.Comm_f2c);
  const auto find_object = [&](const char* name, auto& symbol) {
    // A program that is linked to Open MPI may have taken the object over (a copy relocation): then its copy counts.
    symbol = static_cast<std::remove_reference_t<decltype(symbol)>>(dlsym(RTLD_DEFAULT, name));
    if (symbol == nullptr) find(name, symbol);
  };
  find_object("ompi_mpi_comm_world", symbols.world);
  find_object("ompi_mpi_comm_null", symbols.no_comm);
  find_object("ompi_request_null", symbols.no_request);
  find_object("ompi_mpi_byte", symbols.byte);
  find_object("ompi_mpi_errors_return", symbols.errors_return);
#else
  symbols.world = MPI_COMM_WORLD;
  symbols.no_comm = MPI_COMM_NULL;
  symbols.no_request = MPI_REQUEST_NULL;
  symbols.byte = MPI_BYTE;
  symbols.errors_return = MPI_ERRORS_RETURN;
#endif
  if (missing == nullptr) return symbols;
  return Error{ErrorKind::kFailedPrecondition,
               fmt::format("[transport/mpi] cannot use the MPI library: found no symbol {}, expected MPI 3.1 or newer; "
                           "install a current MPI",
                           missing)};
}

template <typename Native>
std::uintptr_t to_number(Native native) {
  if constexpr (std::is_pointer_v<Native>)
    return reinterpret_cast<std::uintptr_t>(native);
  else
    return static_cast<std::uintptr_t>(static_cast<unsigned>(native));
}

template <typename Native = MPI_Comm>
Native native(Comm comm) {
  if constexpr (std::is_pointer_v<Native>)
    return reinterpret_cast<Native>(comm.handle);
  else
    return static_cast<Native>(static_cast<unsigned>(comm.handle));
}

constexpr std::array<std::pair<ThreadLevel, int>, 4> kLevels = {{{ThreadLevel::kSingle, MPI_THREAD_SINGLE},
                                                                 {ThreadLevel::kFunneled, MPI_THREAD_FUNNELED},
                                                                 {ThreadLevel::kSerialized, MPI_THREAD_SERIALIZED},
                                                                 {ThreadLevel::kMultiple, MPI_THREAD_MULTIPLE}}};

int native(ThreadLevel level) { return kLevels[static_cast<size_t>(level)].second; }

ThreadLevel level_of(int level) {
  ThreadLevel found = ThreadLevel::kSingle;
  for (const auto& [ours, theirs] : kLevels) {
    if (theirs <= level) found = ours;
  }
  return found;
}

/// Serialises with other threads that call MPI, unless MPI is multiple.
class Turns {
 public:
  void set_level(ThreadLevel level) { takes_turns_ = level != ThreadLevel::kMultiple; }

  template <typename Call>
  auto operator()(Call&& call) const {
    if (!takes_turns_) return call();
    const std::lock_guard turn(calls);
    return call();
  }

 private:
  bool takes_turns_ = true;
};

class NativeRequests final : public Requests {
 public:
  NativeRequests(const Symbols& symbols, const Turns& turns)
      : mpi_(symbols), turns_(turns), duplicate_(std::make_unique<MPI_Comm>(symbols.no_comm)) {}

  ~NativeRequests() override {
    const bool is_pending_duplicate = duplicate_request_ >= 0 && is_pending(duplicate_request_);
    if (is_pending_duplicate) static_cast<void>(duplicate_.release());  // MPI may write to it until the process ends
  }

  Code receive(const Envelope& from, std::span<std::byte> bytes) override {
    return post(Kind::kReceive, [&](MPI_Request* request) {
      return mpi_.Irecv(bytes.data(), static_cast<int>(bytes.size()), mpi_.byte, from.peer, from.tag, native(from.comm),
                        request);
    });
  }

  Code send(const Envelope& to, std::span<const std::byte> bytes) override {
    return post(Kind::kOther, [&](MPI_Request* request) {
      return mpi_.Isend(bytes.data(), static_cast<int>(bytes.size()), mpi_.byte, to.peer, to.tag, native(to.comm),
                        request);
    });
  }

  Code duplicate(Comm parent) override {
    duplicate_request_ = static_cast<int>(requests_.size());
    return post(Kind::kOther,
                [&](MPI_Request* request) { return mpi_.Comm_idup(native(parent), duplicate_.get(), request); });
  }

  Comm duplicated() const override { return {to_number(*duplicate_)}; }

  Look test() override {
    statuses_.resize(requests_.size());
    completed_.resize(requests_.size());
    done_.clear();
    return turns_([&] { return test_in_turn(); });
  }

  bool is_pending(int request) const override { return requests_[static_cast<size_t>(request)] != mpi_.no_request; }

  void give_up() override {
    for (size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == mpi_.no_request || static_cast<int>(i) == duplicate_request_) continue;
      turns_([&] {
        if (kinds_[i] == Kind::kReceive) mpi_.Cancel(&requests_[i]);
        return mpi_.Request_free(&requests_[i]);
      });
    }
  }

  void clear() override {
    requests_.clear();
    kinds_.clear();
  }

 private:
  enum class Kind : unsigned char { kReceive, kOther };

  template <typename Call>
  Code post(Kind kind, Call&& call) {
    MPI_Request request = mpi_.no_request;
    const Code code = turns_([&] { return call(&request); });
    if (code != MPI_SUCCESS) return code;
    requests_.push_back(request);
    kinds_.push_back(kind);
    return code;
  }

  Look test_in_turn() {
    int completed = 0;
    const Code code = mpi_.Testsome(static_cast<int>(requests_.size()), requests_.data(), &completed, completed_.data(),
                                    statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) return {.code = code};
    if (completed == MPI_UNDEFINED) return {.is_over = true};
    for (int i = 0; i < completed; ++i) {
      const int request = completed_[static_cast<size_t>(i)];
      if (code == MPI_ERR_IN_STATUS && statuses_[static_cast<size_t>(i)].MPI_ERROR != MPI_SUCCESS) {
        return {.code = statuses_[static_cast<size_t>(i)].MPI_ERROR};
      }
      int bytes = 0;
      if (kinds_[static_cast<size_t>(request)] == Kind::kReceive) {
        mpi_.Get_count(&statuses_[static_cast<size_t>(i)], mpi_.byte, &bytes);
      }
      done_.push_back({.request = request, .bytes = bytes});
    }
    return {.done = done_};
  }

  const Symbols& mpi_;
  const Turns& turns_;
  std::vector<MPI_Request> requests_;
  std::vector<Kind> kinds_;  // by request index
  std::vector<MPI_Status> statuses_;
  std::vector<int> completed_;
  std::vector<Done> done_;
  std::unique_ptr<MPI_Comm> duplicate_;
  int duplicate_request_ = -1;
};

class Adapter final : public Library {
 public:
  explicit Adapter(const Symbols& symbols) : mpi_(symbols) {}

  std::string version() const override {
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING + 1> text{};
    int length = 0;
    mpi_.Get_library_version(text.data(), &length);
    return {text.data(), static_cast<size_t>(length)};
  }
  bool is_initialized() const override { return is_set(mpi_.Initialized); }
  bool is_finalized() const override { return is_set(mpi_.Finalized); }
  Code initialize(ThreadLevel wanted, ThreadLevel& granted) override {
    int level = MPI_THREAD_SINGLE;
    const Code code = mpi_.Init_thread(nullptr, nullptr, native(wanted), &level);
    granted = level_of(level);
    turns_.set_level(granted);
    return code;
  }
  ThreadLevel thread_level() override {
    int level = MPI_THREAD_SINGLE;
    mpi_.Query_thread(&level);
    turns_.set_level(level_of(level));
    return level_of(level);
  }
  bool is_main_thread() const override { return is_set(mpi_.Is_thread_main); }
  Code finalize() override {
    return turns_([&] { return mpi_.Finalize(); });
  }
  Comm world() const override { return {to_number(mpi_.world)}; }
  Result<Comm> from_fortran(int handle) const override;
  int rank_in(Comm comm) const override { return number_of(mpi_.Comm_rank, comm); }
  int size_of(Comm comm) const override { return number_of(mpi_.Comm_size, comm); }
  int last_tag() const override;
  Code return_errors(Comm comm) override {
    return turns_([&] { return mpi_.Comm_set_errhandler(native(comm), mpi_.errors_return); });
  }
  Code free(Comm comm) override {
    MPI_Comm freed = native(comm);
    return turns_([&] { return mpi_.Comm_free(&freed); });
  }
  std::unique_ptr<Requests> new_requests() override { return std::make_unique<NativeRequests>(mpi_, turns_); }
  Failure describe(Code code) const override;

 private:
  bool is_set(int (*question)(int*)) const {
    int flag = 0;
    turns_([&] { return question(&flag); });
    return flag != 0;
  }
  int number_of(int (*question)(MPI_Comm, int*), Comm comm) const {
    int number = 0;
    turns_([&] { return question(native(comm), &number); });
    return number;
  }

  const Symbols mpi_;
  Turns turns_;
};

Result<Comm> Adapter::from_fortran(int handle) const {
#ifdef OPEN_MPI
  const MPI_Comm comm = turns_([&] { return mpi_.Comm_f2c(handle); });
#else
  const MPI_Comm comm = MPI_Comm_f2c(handle);
#endif
  int is_inter = 0;
  const bool is_one = comm != mpi_.no_comm && comm != MPI_Comm{} &&
                      turns_([&] { return mpi_.Comm_test_inter(comm, &is_inter); }) == MPI_SUCCESS;
  if (is_one && is_inter == 0) return Comm{to_number(comm)};
  return Error{ErrorKind::kInvalidArgument,
               fmt::format("[transport/mpi] cannot adopt a communicator: found the Fortran handle {} of {}, expected "
                           "that of an intra-communicator; pass MPI_Comm_c2f(comm)",
                           handle, is_one ? "an inter-communicator" : "no communicator")};
}

int Adapter::last_tag() const {
  int* value = nullptr;
  int is_there = 0;
  turns_([&] { return mpi_.Comm_get_attr(mpi_.world, MPI_TAG_UB, &value, &is_there); });
  return is_there != 0 ? *value : 32767;  // MPI's guaranteed minimum
}

Library::Failure Adapter::describe(Code code) const {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  int error_class = MPI_ERR_UNKNOWN;
  turns_([&] {
    mpi_.Error_string(code, text.data(), &length);
    return mpi_.Error_class(code, &error_class);
  });
  // A failed exchange without a mismatch between the ranks or a lack of memory: a peer or the connection to it is lost.
  const ErrorKind kind = error_class == MPI_ERR_TRUNCATE ? ErrorKind::kFailedPrecondition
                         : error_class == MPI_ERR_NO_MEM ? ErrorKind::kResourceExhausted
                                                         : ErrorKind::kPeerLost;
  return {.text = {text.data(), static_cast<size_t>(length)}, .kind = kind};
}

Result<std::unique_ptr<Library>> make_adapter(void* handle) {
  LOCKSTEP_TRY(const Symbols symbols, find_symbols(handle));
  return std::make_unique<Adapter>(symbols);
}

}  // namespace

#ifdef OPEN_MPI
Result<std::unique_ptr<Library>> make_open_mpi_adapter(void* handle) { return make_adapter(handle); }
#else
Result<std::unique_ptr<Library>> make_mpich_adapter(void* handle) { return make_adapter(handle); }
#endif

}  // namespace lockstep::transport::mpi
