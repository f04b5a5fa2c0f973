// The private duplicate of a communicator: made once for each world, in looks that wait for nothing.
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
  /// Borrows the library until it is over.
  Duplication(Library& library, Comm parent, const WaitOptions& wait);

  bool poll() override;
  /// MPI cannot cancel it: it is left as it is.
  void abandon() override {}

  /// Once it is over: a communicator on which failing calls return.
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
