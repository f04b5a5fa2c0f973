// Messages between processes keep every field.
#include "actors/protocol.h"

#include <gtest/gtest.h>

#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>

#include "tests/changed_fields.h"

namespace lockstep::actors {
namespace {

/// `sent` as another process reads it.
template <typename T>
T received(T sent) {
  caf::actor_system_config config;
  caf::actor_system system(config);
  std::vector<char> bytes;
  caf::binary_serializer sink(system, bytes);
  T result;
  EXPECT_FALSE(static_cast<bool>(sink(sent)));
  caf::binary_deserializer source(system, bytes);
  EXPECT_FALSE(static_cast<bool>(source(result)));
  return result;
}

TEST(Protocol, CarriesEveryFieldOfALimit) {
  for_each_changed_field(PlannerLimits(), [](const std::string& name, const PlannerLimits& limits) {
    EXPECT_EQ(received(limits), limits) << name;
  });
}

TEST(Protocol, CarriesEveryFieldOfASchedule) {
  const shards::SlotParameters parameters{.max_new_tokens = 7, .eos_ids = {3, 4}};
  const Schedule schedule{.number = 4,
                          .closed = {SlotId(2)},
                          .opened = {{.slot = SlotId(1), .parameters = parameters}},
                          .prefills = {{.ids = {5, 6},
                                        .slot = {1, 1},
                                        .position = {0, 1},
                                        .logit_rows = {1},
                                        .copies = {{.src = SlotId(1), .dst = SlotId(2)}}}},
                          .decode_steps = 3};
  for_each_changed_field(
      schedule, [](const std::string& name, const Schedule& sent) { EXPECT_EQ(received(sent), sent) << name; });
  for_each_changed_field(parameters, [&](const std::string& name, const shards::SlotParameters& opened) {
    Schedule sent = schedule;
    sent.opened.front().parameters = opened;
    EXPECT_EQ(received(sent), sent) << name;
  });
}

}  // namespace
}  // namespace lockstep::actors
