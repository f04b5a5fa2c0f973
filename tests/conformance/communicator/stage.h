// The ranks of a conformance test, as threads or as processes under mpirun. The same list of tests runs with both; a
// test only sees one `Peer` and performs that rank's part.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/device/communicator.h"
#include "transport/bootstrap.h"
#include "transport/loopback/loopback.h"

namespace lockstep::conformance {

/// One rank of a test.
struct Peer {
  transport::Bootstrap& bootstrap;
  std::shared_ptr<transport::loopback::Group> group;  // of its threads; null when the ranks are processes

  int rank() const { return bootstrap.rank(); }
  int size() const { return bootstrap.size(); }
};

/// One implementation under test.
struct Implementation {
  std::string name;
  size_t message_bytes = 1 << 20;  // of one round, where there is such a thing
  /// @collective
  std::function<Result<std::unique_ptr<device::Communicator>>(Peer&, const transport::WaitOptions&)> make;
  bool allocates = false;     // in steady state: a library below it may
  bool counts_all = true;     // its errors count the operations of the test and no others
  bool lends_places = false;  // for the roots of sums
  bool sees_all = true;       // a rank that fails knows which other ranks are missing
};

/// An implementation and how many ranks: 0 for as many as mpirun started.
struct Cast {
  Implementation implementation;
  int ranks = 0;
};

/// Runs `body` once for every rank that lives in this process and returns when all have ended.
void run_ranks(const Cast& cast, const std::function<void(Peer&)>& body);

}  // namespace lockstep::conformance
