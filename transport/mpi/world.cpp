#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <thread>

#include "runtime/core/check.h"
#include "transport/exchange.h"
#include "transport/mpi/duplication.h"
#include "transport/mpi/library_search.h"
#include "transport/mpi/mpi.h"
#include "transport/mpi/mpi_communicator.h"

namespace lockstep::transport::mpi {
namespace {

/// The owner of MPI, or of the duplicate: the world that this one is a part of.
enum class Owner { kUs, kProgram, kWhole };

// MPI is per process, and so is its one thread.
constinit std::mutex shared_queue_mutex;
constinit std::weak_ptr<FunneledQueue> shared_queue;

/// The queue of this thread, which makes a world; if MPI is funneled, all worlds share it.
std::shared_ptr<FunneledQueue> queue_for(ThreadLevel level) {
  if (level >= ThreadLevel::kSerialized) return std::make_shared<FunneledQueue>();
  const std::lock_guard lock(shared_queue_mutex);
  std::shared_ptr<FunneledQueue> queue = shared_queue.lock();
  if (queue == nullptr) shared_queue = queue = std::make_shared<FunneledQueue>();
  return queue;
}

class LoadedWorld final : public World {
 public:
  /// Over a duplicate of `parent`.
  static Result<std::unique_ptr<World>> open(OpenLibrary opened, Comm parent, Owner owner, const WaitOptions& wait);

  /// `comm` is the world's own.
  LoadedWorld(OpenLibrary opened, std::shared_ptr<FunneledQueue> queue, Comm comm, Owner owner)
      : library_(std::move(opened.library)),
        level_(library_->thread_level()),
        comm_(comm),
        owner_(owner),
        rank_(library_->rank_in(comm)),
        size_(library_->size_of(comm)),
        last_tag_(library_->last_tag()),
        name_(fmt::format("mpi ({}, threads {})", opened.name, to_string(level_))),
        queue_(std::move(queue)) {}

  /// The part of `whole` in which this process is.
  LoadedWorld(const LoadedWorld& whole, int ranks, bool crowded)
      : library_(whole.library_),
        level_(whole.level_),
        comm_(whole.comm_),
        owner_(Owner::kWhole),
        first_(whole.first_ + whole.rank_ / ranks * ranks),
        rank_(whole.rank_ % ranks),
        size_(ranks),
        last_tag_(whole.last_tag_),
        is_crowded_(crowded),
        name_(whole.name_),
        queue_(whole.queue_),
        next_tag_(whole.last_tag_ / 2) {}  // the tags before are the whole's

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool is_funneled() const override { return level_ < ThreadLevel::kSerialized; }

  Result<std::unique_ptr<Bootstrap>> make_bootstrap(const WaitOptions& wait) override {
    // It is not known yet which ranks share cores, so yield early.
    LOCKSTEP_TRY(auto communicator, connect(wait, /*crowded=*/true, {}));
    return make_bootstrap_over(std::move(communicator), name_);
  }

  Result<std::unique_ptr<PartCommunicator>> make_communicator(std::span<const RankPlace> places,
                                                              const WaitOptions& wait,
                                                              std::vector<int> members) override {
    LOCKSTEP_TRY(auto communicator, connect(wait, is_crowded_ || is_crowded(places), std::move(members)));
    return communicator;
  }

  std::unique_ptr<World> part(int ranks, bool crowded) override {
    LOCKSTEP_CHECK(ranks >= 1 && size_ % ranks == 0, size_, ranks);
    return std::make_unique<LoadedWorld>(*this, ranks, crowded);
  }

  Result<void> lend(const std::function<bool()>& until, const WaitOptions& wait) override {
    return queue_->serve(until, wait);
  }

  Result<void> finish(const WaitOptions& wait) override;

 private:
  Result<std::unique_ptr<MpiCommunicator>> connect(const WaitOptions& wait, bool crowded, std::vector<int> members);

  const std::shared_ptr<Library> library_;  // shared with its channels
  const ThreadLevel level_;
  const Comm comm_;
  const Owner owner_;
  const int first_ = 0;  // the communicator's rank that is 0 here
  const int rank_, size_, last_tag_;
  const bool is_crowded_ = false;
  const std::string name_;
  const std::shared_ptr<FunneledQueue> queue_;  // of the thread that makes the world; shared as `queue_for` says
  bool has_left_ = false;
  std::atomic<int> next_tag_ = 0;  // channels share the duplicate and differ by their tags
};

Result<std::unique_ptr<World>> LoadedWorld::open(OpenLibrary opened, Comm parent, Owner owner,
                                                 const WaitOptions& wait) {
  std::shared_ptr<FunneledQueue> queue = queue_for(opened.library->thread_level());
  const auto duplication = std::make_shared<Duplication>(*opened.library, parent, wait);  // shared as `run` asks
  queue->run(duplication, wait);
  LOCKSTEP_TRY(const Comm comm, duplication->result());
  return std::make_unique<LoadedWorld>(std::move(opened), std::move(queue), comm, owner);
}

Result<std::unique_ptr<MpiCommunicator>> LoadedWorld::connect(const WaitOptions& wait, bool crowded,
                                                              std::vector<int> members) {
  const int tag = next_tag_++;
  if (tag > last_tag_ || tag < 0) {
    return Error{
        ErrorKind::kResourceExhausted,
        fmt::format("[transport/mpi] rank {}: cannot make another communicator: found {} of one group, expected "
                    "no more; make a new group",
                    rank_, last_tag_),
        rank_};
  }
  if (members.empty()) {
    members.resize(static_cast<size_t>(size_));
    std::iota(members.begin(), members.end(), 0);
  }
  const auto own = std::find(members.begin(), members.end(), rank_);
  LOCKSTEP_CHECK(own != members.end(), rank_);
  const auto place = static_cast<int>(own - members.begin());
  for (int& member : members) member += first_;
  return std::make_unique<MpiCommunicator>(std::make_unique<Messages>(Channel{.library = library_,
                                                                              .comm = comm_,
                                                                              .tag = tag,
                                                                              .members = std::move(members),
                                                                              .rank = place,
                                                                              .first = first_},
                                                                      is_funneled() ? queue_.get() : nullptr, wait,
                                                                      wait_stages(crowded)));
}

Result<void> LoadedWorld::finish(const WaitOptions& wait) {
  if (has_left_ || library_->is_finalized()) return ok();
  if (!queue_->is_owner()) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[transport/mpi] rank {}: cannot leave MPI: found a call on another thread, expected the "
                             "thread that joined; leave the group where it was made",
                             rank_),
                 rank_};
  }
  LOCKSTEP_TRY(const auto last, connect(wait, /*crowded=*/true, {}));
  LOCKSTEP_TRY_VOID(last->barrier(device::Stream::host()));
  has_left_ = true;
  if (owner_ == Owner::kWhole) return ok();
  if (owner_ == Owner::kUs) return check(*library_, library_->finalize(), rank_, "MPI_Finalize");
  return check(*library_, library_->free(comm_), rank_, "MPI_Comm_free");
}

Error cannot_start(ErrorKind kind, std::string_view found, std::string_view expected, std::string_view advice) {
  return {kind,
          fmt::format("[transport/mpi] MPI cannot be started: found {}, expected {}; {}", found, expected, advice)};
}

/// `check_world`, with notes on the choice of library.
Result<void> check_ranks(const Library& mpi, const ChosenLibrary& library) {
  const Comm world = mpi.world();
  const auto fits = check_world(library.launch, mpi.rank_in(world), mpi.size_of(world), library.name);
  if (fits.has_value() || library.note.empty()) return fits;
  Error error = fits.error();
  error.message += fmt::format(" ({})", library.note);
  return error;
}

}  // namespace

Result<std::unique_ptr<World>> start(const ChosenLibrary& library, const WaitOptions& wait) {
  if (find_initialized_library().has_value()) {
    return cannot_start(ErrorKind::kFailedPrecondition, "an MPI that was initialised before",
                        "the first start in this process", "use that group, or adopt a communicator of that MPI");
  }
  LOCKSTEP_TRY(OpenLibrary opened, open_library(library.file));
  Library& mpi = *opened.library;
  if (mpi.is_finalized()) {
    return cannot_start(ErrorKind::kFailedPrecondition, "an MPI that was finalised", "the first start in this process",
                        "MPI starts once: start another process");
  }
  ThreadLevel level = ThreadLevel::kSingle;
  if (const Code code = mpi.initialize(ThreadLevel::kSerialized, level); code != kSuccess) {
    return cannot_start(ErrorKind::kUnavailable, fmt::format("error {}", code), "success",
                        "look at what MPI wrote to stderr");
  }
  static_cast<void>(mpi.return_errors(mpi.world()));  // a failing exchange must not end the process
  LOCKSTEP_TRY_VOID(check_ranks(mpi, library));
  const Comm world = mpi.world();
  return LoadedWorld::open(std::move(opened), world, Owner::kUs, wait);
}

Result<std::unique_ptr<World>> adopt(int fortran_handle, const WaitOptions& wait) {
  LOCKSTEP_TRY(OpenLibrary opened, find_initialized_library());
  Library& library = *opened.library;
  const ThreadLevel level = library.thread_level();
  if (level < ThreadLevel::kSerialized && !library.is_main_thread()) {
    return Error{ErrorKind::kFailedPrecondition,
                 fmt::format("[transport/mpi] cannot adopt a communicator: found MPI with threads {} on a thread that "
                             "did not initialise it, expected that thread; adopt there, or initialise MPI with "
                             "MPI_THREAD_SERIALIZED",
                             to_string(level))};
  }
  LOCKSTEP_TRY(const Comm parent, library.from_fortran(fortran_handle));
  return LoadedWorld::open(std::move(opened), parent, Owner::kProgram, wait);
}

}  // namespace lockstep::transport::mpi
