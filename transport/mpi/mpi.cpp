#include "transport/mpi/mpi.h"

#include <mpi.h>

#include <algorithm>

#include "runtime/core/check.h"
#include "transport/exchange.h"
#include "transport/mpi/mpi_communicator.h"
#include "transport/mpi/mpi_status.h"

namespace lockstep::transport::mpi {
namespace {

std::string_view level_name(int level) {
  if (level == MPI_THREAD_MULTIPLE) return "multiple";
  if (level == MPI_THREAD_SERIALIZED) return "serialized";
  return level == MPI_THREAD_FUNNELED ? "funneled" : "single";
}

class MpiBootstrap final : public Bootstrap {
 public:
  MpiBootstrap(std::unique_ptr<device::Communicator> communicator, int level)
      : communicator_(std::move(communicator)),
        name_(fmt::format("mpi ({}, threads {})", library_name(), level_name(level))) {}

  int rank() const override { return communicator_->rank(); }
  int size() const override { return communicator_->size(); }
  std::string name() const override { return name_; }
  Result<std::vector<std::string>> exchange(std::string_view mine) override {
    return exchange_over(*communicator_, mine);
  }
  Result<void> barrier() override { return communicator_->barrier(device::Stream::host()); }
  Result<std::vector<RankPlace>> places() override {
    if (places_.empty()) {
      LOCKSTEP_TRY(places_, exchange_places(*this));
    }
    return places_;
  }

  /// Meets the others under the deadline first: MPI_Finalize would wait for a dead peer without one.
  Result<void> finish() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized != 0) return ok();
    LOCKSTEP_TRY_VOID(barrier());
    return check(MPI_Finalize(), rank(), "MPI_Finalize");
  }

 private:
  std::unique_ptr<device::Communicator> communicator_;
  std::string name_;
  std::vector<RankPlace> places_;
};

Error cannot_start(std::string_view found, std::string_view expected, std::string_view advice) {
  return {ErrorKind::kUnavailable,
          fmt::format("[transport/mpi] MPI cannot be started: found {}, expected {}; {}", found, expected, advice)};
}

}  // namespace

std::string library_name() {
  // "Open MPI v4.1.4, package: …", "MPICH Version:\t4.0.2\nMPICH Release date: …"
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(text, &length);
  std::string name(text, static_cast<size_t>(length));
  name.resize(std::min(name.find_first_of(",\n"), name.size()));
  const size_t version = name.find_first_of("0123456789");
  const size_t word_end = name.find_first_of(":\t");
  if (word_end < version && version != std::string::npos && name.starts_with("MPICH")) {
    return "MPICH " + name.substr(version);
  }
  if (name.starts_with("Open MPI v")) name.erase(9, 1);
  return name;
}

Result<std::unique_ptr<Bootstrap>> make_bootstrap(const WaitOptions& wait) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  if (initialized != 0) {
    return cannot_start("an MPI that was started before", "the first start in this process", "use that bootstrap");
  }
  int level = MPI_THREAD_SINGLE;
  if (const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level); code != MPI_SUCCESS) {
    return cannot_start(fmt::format("error {}", code), "success", "look at what MPI wrote to stderr");
  }
  if (level < MPI_THREAD_FUNNELED) {
    return cannot_start("thread level single", "at least funneled", "use an MPI with thread support");
  }
  // Nobody knows yet who shares cores with whom: give them away early.
  LOCKSTEP_TRY(auto messages, Messages::open(wait, /*crowded=*/true));
  return std::make_unique<MpiBootstrap>(std::make_unique<MpiCommunicator>(std::move(messages)), level);
}

Result<std::unique_ptr<PartCommunicator>> make_communicator(Bootstrap& bootstrap, const WaitOptions& wait,
                                                            std::vector<int> members) {
  int initialized = 0;
  MPI_Initialized(&initialized);
  LOCKSTEP_CHECK(initialized != 0);
  LOCKSTEP_TRY(const std::vector<RankPlace> places, bootstrap.places());
  LOCKSTEP_TRY(auto messages, Messages::open(wait, is_crowded(places), std::move(members)));
  return std::make_unique<MpiCommunicator>(std::move(messages));
}

}  // namespace lockstep::transport::mpi
