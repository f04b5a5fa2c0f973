// A rank's communicator, and every operation once: for the tests of the suite.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/conformance/communicator/suite.h"
#include "tests/conformance/communicator/tree_reference.h"
#include "tests/conformance/communicator/waits.h"

namespace lockstep::conformance {

using device::Communicator;
using device::Stream;
using device::TreeSum;

inline const Stream kHost = Stream::host();

/// Makes the communicator of a rank; the test continues only with one.
inline std::unique_ptr<Communicator> make(const Cast& cast, Peer& peer, const Ends& ends) {
  auto made = cast.implementation.make(peer, ends.wait);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(made).value();
}

inline std::byte pattern(int rank, int64_t i) { return static_cast<std::byte>(rank * 37 + i * 11 + i / 251); }

inline std::vector<std::byte> pattern_of(int rank, int64_t bytes) {
  std::vector<std::byte> values(static_cast<size_t>(bytes));
  for (int64_t i = 0; i < bytes; ++i) values[i] = pattern(rank, i);
  return values;
}

/// Every operation once, of a size with a part for every rank; the last rank broadcasts.
struct NamedOperation {
  const char* name;
  Result<void> (*run)(Communicator&);
};

inline Result<void> run_all_reduce(Communicator& communicator) {
  const TreeSum sum(splits_for(communicator.size())[0]);
  std::vector<float> dst(64);
  return communicator.all_reduce(sum, reference_roots(sum.split, communicator.rank(), 64), dst, kHost);
}

inline Result<void> run_all_gather(Communicator& communicator) {
  const std::vector<int64_t> counts(static_cast<size_t>(communicator.size()), 24);
  std::vector<std::byte> dst(24 * counts.size());
  return communicator.all_gather(pattern_of(communicator.rank(), 24), counts, dst, kHost);
}

inline Result<void> run_broadcast(Communicator& communicator) {
  std::vector<std::byte> values = pattern_of(communicator.rank(), 100);
  return communicator.broadcast(values, communicator.size() - 1, kHost);
}

inline Result<void> run_barrier(Communicator& communicator) { return communicator.barrier(kHost); }

inline constexpr NamedOperation kOperations[] = {{"all_reduce", run_all_reduce},
                                                 {"all_gather", run_all_gather},
                                                 {"broadcast", run_broadcast},
                                                 {"barrier", run_barrier}};

}  // namespace lockstep::conformance
