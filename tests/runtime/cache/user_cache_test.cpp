#include "runtime/cache/user_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "tests/temporary_directory.h"

namespace lockstep::cache {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<std::unique_ptr<device::ArtifactCache>> open_with(const device::OptionValues& values, Variables variables) {
  const auto lookup = [variables](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  LOCKSTEP_TRY_VOID(device::check_values("test", option_rows(), values));
  return open_user_cache({option_rows(), values}, {.build = "test", .environment = lookup});
}

device::ArtifactKey key_of(const std::string& module) {
  return {.backend = "neuron", .step = "decode", .fields = {{"module", module}}};
}

Result<void> make(const device::ArtifactWorkspace& workspace) {
  std::ofstream(workspace.artifact) << "x";
  return ok();
}

std::string folder_that_is_used(const device::OptionValues& values, Variables variables) {
  return open_with(values, std::move(variables)).value()->get(key_of("aa"), make).value().path.string();
}

TEST(UserCache, IsInTheUsersCacheFolder) {
  TemporaryDirectory directory;
  const std::string home = directory.path().string();
  const Variables both = {{"XDG_CACHE_HOME", home + "/xdg"}, {"HOME", home}};
  EXPECT_THAT(folder_that_is_used({}, both), HasSubstr(home + "/xdg/lockstep/"));
  EXPECT_THAT(folder_that_is_used({{"compile-cache", home + "/named"}}, both), HasSubstr(home + "/named/"));
  EXPECT_THAT(folder_that_is_used({}, {{"HOME", home}}), HasSubstr(home + "/.cache/lockstep/"));
}

TEST(UserCache, NeedsANameWhereThereIsNoHome) {
  const auto cache = open_with({}, {});
  ASSERT_FALSE(cache.has_value());
  EXPECT_EQ(cache.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(cache.error().message, HasSubstr("--compile-cache"));
}

TEST(UserCache, IsRefusedWithHalfAnAccount) {
  const auto cache =
      open_with({{"compile-cache-remote", "s3://bucket/prefix"}}, {{"AWS_ACCESS_KEY_ID", "key"}, {"HOME", "/nowhere"}});
  ASSERT_FALSE(cache.has_value());
  EXPECT_THAT(cache.error().message, HasSubstr("AWS_SECRET_ACCESS_KEY"));
}

TEST(UserCache, IsOnlyTheArtifactsWhereTheyAreNamed) {
  TemporaryDirectory directory;
  const std::string folder = directory.path().string();
  EXPECT_EQ(open_with({{"artifacts", folder}}, {}).error().kind, ErrorKind::kNotFound);
  folder_that_is_used({{"compile-cache", folder}}, {});  // a cache's folder is one of artifacts, too
  const auto artifacts = open_with({{"artifacts", folder}}, {}).value();
  EXPECT_TRUE(artifacts->get(key_of("aa"), make).has_value());
  EXPECT_THAT(artifacts->get(key_of("bb"), make).error().message, HasSubstr(R"(module: found "aa", expected "bb")"));
}

TEST(UserCache, IsEitherFilledOrAnExportedFolder) {
  EXPECT_THAT(open_with({{"artifacts", "a"}, {"retry-failed", "true"}}, {}).error().message,
              HasSubstr("--artifacts: found it beside --retry-failed"));
}

}  // namespace
}  // namespace lockstep::cache
