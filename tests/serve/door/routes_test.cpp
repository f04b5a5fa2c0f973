#include "launcher/serve/door/routes.h"

#include <gtest/gtest.h>

namespace lockstep::serve {
namespace {

TEST(Routes, OnlyHealthMetricsAndThePageNeedNoKey) {
  for (const char* path : {"/", "/metrics", "/health", "/health/live", "/health/ready"}) {
    EXPECT_TRUE(is_public(path)) << path;
  }
  for (const char* path : {"/v1/models", "/v1", "/tokenize", "/admin/status", "/healthy", "/metrics/", ""}) {
    EXPECT_FALSE(is_public(path)) << path;
  }
}

}  // namespace
}  // namespace lockstep::serve
