// The private duplicate of a communicator, made once for each world by non-blocking polls.
#pragma once

#include <memory>
#include <optional>

#include "transport/mpi/funneled_queue.h"
#include "transport/mpi/library.h"
#include "transport/waiting.h"

namespace lockstep::transport::mpi {

/// Begun by the first poll.
class Duplication final : public PolledWork {
 public:
  /// Borrows the library until the duplication is complete.
  Duplication(Library& library, Comm parent, const WaitOptions& wait);

  bool poll() override;
  /// Leaves it pending, because MPI cannot cancel it.
  void abandon() override {}

  /// After completion: a communicator on which failing calls return.
  Result<Comm> result() const;

 private:
  Result<bool> look();

  Library& library_;
  const Comm parent_;
  const int rank_;
  Patience patience_;
  std::unique_ptr<Requests> requests_;
  bool is_begun_ = false;
  std::optional<Error> error_;
};

}  // namespace lockstep::transport::mpi
