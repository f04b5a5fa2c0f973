#include "launcher/ranks/compile_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <map>

#include "tests/temporary_directory.h"

namespace lockstep::launcher {
namespace {

using ::testing::HasSubstr;

/// Sets variables of the environment, and sets them back.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& values) {
    for (const auto& [name, value] : values) {
      if (const char* before = ::getenv(name.c_str())) before_[name] = before;
      names_.push_back(name);
      value.empty() ? ::unsetenv(name.c_str()) : ::setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const std::string& name : names_) {
      before_.contains(name) ? ::setenv(name.c_str(), before_[name].c_str(), 1) : ::unsetenv(name.c_str());
    }
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, std::string> before_;
};

device::ArtifactKey key_of(const std::string& module) {
  return {.backend = "neuron", .step = "decode", .fields = {{"module", module}}};
}

Result<void> make(const device::ArtifactWorkspace& workspace) {
  std::ofstream(workspace.artifact) << "x";
  return ok();
}

std::string folder_that_is_used(const CacheOptions& options) {
  const Log log;
  return make_compile_cache(options, log).value()->get(key_of("aa"), make).value().path.string();
}

TEST(CompileCache, IsInTheUsersCacheFolder) {
  TemporaryDirectory directory;
  const std::string home = directory.path().string();
  {
    Environment set({{"XDG_CACHE_HOME", home + "/xdg"}, {"HOME", home}});
    EXPECT_THAT(folder_that_is_used({}), HasSubstr(home + "/xdg/lockstep/"));
    EXPECT_THAT(folder_that_is_used({.directory = directory.path() / "named"}), HasSubstr(home + "/named/"));
  }
  Environment set({{"XDG_CACHE_HOME", ""}, {"HOME", home}});
  EXPECT_THAT(folder_that_is_used({}), HasSubstr(home + "/.cache/lockstep/"));
}

TEST(CompileCache, NeedsANameWhereThereIsNoHome) {
  const Log log;
  Environment set({{"XDG_CACHE_HOME", ""}, {"HOME", ""}});
  const auto cache = make_compile_cache({}, log);
  ASSERT_FALSE(cache.has_value());
  EXPECT_EQ(cache.error().kind, ErrorKind::kInvalidArgument);
  EXPECT_THAT(cache.error().message, HasSubstr("--compile-cache"));
}

TEST(CompileCache, IsRefusedWithHalfAnAccount) {
  const Log log;
  Environment set({{"AWS_ACCESS_KEY_ID", "key"}, {"AWS_SECRET_ACCESS_KEY", ""}, {"HOME", "/nowhere"}});
  const auto cache = make_compile_cache({.remotes = {"s3://bucket/prefix"}}, log);
  ASSERT_FALSE(cache.has_value());
  EXPECT_THAT(cache.error().message, HasSubstr("AWS_SECRET_ACCESS_KEY"));
}

TEST(CompileCache, IsOnlyTheArtifactsWhereTheyAreNamed) {
  const Log log;
  TemporaryDirectory directory;
  EXPECT_EQ(make_compile_cache({.artifacts = directory.path()}, log).error().kind, ErrorKind::kNotFound);
  folder_that_is_used({.directory = directory.path()});  // a cache's folder is one of artifacts, too
  const auto artifacts = make_compile_cache({.artifacts = directory.path()}, log).value();
  EXPECT_TRUE(artifacts->get(key_of("aa"), make).has_value());
  EXPECT_THAT(artifacts->get(key_of("bb"), make).error().message, HasSubstr(R"(module: found "aa", expected "bb")"));
}

}  // namespace
}  // namespace lockstep::launcher
