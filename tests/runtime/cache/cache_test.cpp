#include "runtime/cache/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <latch>
#include <thread>

#include "runtime/cache/folder.h"
#include "runtime/cache/key.h"
#include "tests/runtime/cache/cache_fixture.h"

namespace lockstep::cache {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST_F(CacheTest, MakesAnArtifactOnce) {
  const auto cache = open();
  const auto made = cache->get(key_of(), maker_.function()).value();
  EXPECT_TRUE(made.was_made);
  EXPECT_THAT(made.origin, HasSubstr("compiled in"));
  EXPECT_EQ(read_text(made.path), "compiled");
  EXPECT_EQ(read_text(made.path.parent_path() / "log"), "a log");
  const auto found = open()->get(key_of(), never()).value();
  EXPECT_FALSE(found.was_made);
  EXPECT_EQ(found.path, made.path);
  EXPECT_EQ(found.origin, "from " + folder().string());
  EXPECT_EQ(maker_.calls, 1);
}

TEST_F(CacheTest, LeavesNothingOfTheMakingBehind) {
  open()->get(key_of(), maker_.function()).value();
  EXPECT_THAT(inside(folder() / "making"), IsEmpty());
  EXPECT_THAT(inside(entry(key_of())), SizeIs(3));  // manifest, artifact, log
  open()->get(key_of("-O2"), failing_.function()).error();
  EXPECT_THAT(inside(folder() / "making"), IsEmpty());
  EXPECT_THAT(inside(folder() / "entries"), SizeIs(1));
}

TEST_F(CacheTest, ShowsNothingHalfMade) {
  const auto look = [&](const device::ArtifactWorkspace& workspace) -> Result<void> {
    write_text(workspace.artifact, "half");
    EXPECT_THAT(inside(folder() / "entries"), IsEmpty());
    return ok();
  };
  open()->get(key_of(), look).value();
  EXPECT_THAT(inside(folder() / "entries"), SizeIs(1));
}

TEST_F(CacheTest, RemovesWhatAMakerThatDiedLeft) {
  const fs::path left = folder() / "making" / (address_of(key_of()) + ".elsewhere.1.0");
  fs::create_directories(left);
  write_text(left / "artifact", "half");
  open()->get(key_of(), maker_.function()).value();
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(CacheTest, RemovesOldDraftsOfOthersToo) {
  const fs::path old = folder() / "making" / (address_of(key_of("-O7")) + ".elsewhere.1.0");
  const fs::path recent = folder() / "making" / (address_of(key_of("-O8")) + ".elsewhere.1.0");
  for (const fs::path& path : {old, recent}) fs::create_directories(path);
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(48));
  open()->get(key_of(), maker_.function()).value();
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(recent));
}

TEST_F(CacheTest, SaysWhyItCompiles) {
  open()->get(key_of("-O1"), maker_.function()).value();
  open()->get(key_of("-O2"), maker_.function()).value();
  EXPECT_EQ(maker_.calls, 2);
  EXPECT_THAT(lines_.infos(), Contains(HasSubstr(R"(decode_64: not there (the nearest differs in flags: found "-O1", )"
                                                 R"(expected "-O2"), so it is compiled)")));
}

TEST_F(CacheTest, MakesAMissAnErrorThatNamesTheFieldWhereThatIsAskedFor) {
  open()->get(key_of("-O1"), maker_.function()).value();
  Options required = options();
  required.require_cached = true;
  const auto cache = open(required);
  EXPECT_TRUE(cache->get(key_of("-O1"), never()).has_value());
  const Error error = cache->get(key_of("-O2"), never()).error();
  EXPECT_EQ(error.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr("decode_64"), HasSubstr(R"(flags: found "-O1", expected "-O2")"),
                                   HasSubstr("lockstep compile"), HasSubstr(folder().string())));
}

TEST_F(CacheTest, TakesTheNewestArtifactForAnUnknownField) {
  const auto cache = open();
  maker_.text = "old";
  cache->get(key_of("-O1", "aa", "2.15"), maker_.function()).value();
  maker_.text = "new";
  cache->get(key_of("-O1", "aa", "2.16"), maker_.function()).value();
  cache->get(key_of("-O9", "aa", "2.17"), maker_.function()).value();
  const auto found = cache->get(key_of("-O1", "aa", ""), never()).value();
  EXPECT_EQ(read_text(found.path), "new");
}

TEST_F(CacheTest, RemembersAFailureWithItsLogUntilARetryIsAskedFor) {
  const Error first = open()->get(key_of(), failing_.function()).error();
  EXPECT_EQ(first.kind, ErrorKind::kUnsupported);
  const fs::path log = folder() / "failures" / address_of(key_of()) / "log";
  EXPECT_THAT(first.message, HasSubstr("see " + log.string()));  // where the log is now, not where it was written
  EXPECT_EQ(read_text(log), "error: sort is not supported");
  wait_for_next_start();
  const Error again = open()->get(key_of(), never()).error();
  EXPECT_EQ(again.kind, ErrorKind::kUnsupported);
  EXPECT_THAT(again.message,
              AllOf(HasSubstr("the compiler failed"), HasSubstr("--retry-failed"), HasSubstr(log.string())));
  Options retry = options();
  retry.retry_failed = true;
  EXPECT_TRUE(open(retry)->get(key_of(), maker_.function()).has_value());
  EXPECT_FALSE(fs::exists(log));
  EXPECT_TRUE(open()->get(key_of(), never()).has_value());
}

TEST_F(CacheTest, RetriesOnceAStart) {
  open()->get(key_of(), failing_.function()).error();
  Options retry = options();
  retry.retry_failed = true;
  wait_for_next_start();
  const auto cache = open(retry);
  cache->get(key_of(), failing_.function()).error();
  cache->get(key_of(), failing_.function()).error();
  EXPECT_EQ(failing_.calls, 2);
}

TEST_F(CacheTest, TriesAgainAtTheNextStartWhatTheMachineMadeFail) {
  failing_.kind = ErrorKind::kUnavailable;
  const auto cache = open();
  cache->get(key_of(), failing_.function()).error();
  EXPECT_EQ(cache->get(key_of(), never()).error().kind, ErrorKind::kUnavailable);
  wait_for_next_start();
  EXPECT_TRUE(open()->get(key_of(), maker_.function()).has_value());
}

TEST_F(CacheTest, DoesNotRememberWhatWasInterrupted) {
  failing_.kind = ErrorKind::kCancelled;
  const auto cache = open();
  cache->get(key_of(), failing_.function()).error();
  EXPECT_TRUE(cache->get(key_of(), maker_.function()).has_value());
}

TEST_F(CacheTest, DoesNotBelieveAMakerThatMadeNothing) {
  const Error error = open()->get(key_of(), [](const auto&) -> Result<void> { return ok(); }).error();
  EXPECT_EQ(error.kind, ErrorKind::kInternal);
}

struct DamageCase {
  const char* name;
  void (*damage)(const fs::path& entry);
  const char* said;
};

class DamagedCacheTest : public CacheTest, public ::testing::WithParamInterface<DamageCase> {};

TEST_P(DamagedCacheTest, IsSetAsideSaidAndRebuilt) {
  open()->get(key_of(), maker_.function()).value();
  GetParam().damage(entry(key_of()));
  maker_.text = "compiled again";
  const auto rebuilt = open()->get(key_of(), maker_.function()).value();
  EXPECT_TRUE(rebuilt.was_made);
  EXPECT_EQ(read_text(rebuilt.path), "compiled again");
  EXPECT_THAT(lines_.warnings(), ElementsAre(AllOf(HasSubstr("is damaged"), HasSubstr(GetParam().said))));
  EXPECT_THAT(inside(folder() / "set-aside"), SizeIs(1));
  EXPECT_EQ(read_text(open()->get(key_of(), never()).value().path), "compiled again");
}

INSTANTIATE_TEST_SUITE_P(
    AnyFile, DamagedCacheTest,
    ::testing::Values(
        DamageCase{"Shorter", [](const fs::path& entry) { write_text(entry / "artifact", "comp"); },
                   "found 4 bytes, expected 8"},
        DamageCase{"Changed", [](const fs::path& entry) { write_text(entry / "artifact", "Compiled"); }, "SHA-256"},
        DamageCase{"Gone", [](const fs::path& entry) { fs::remove(entry / "artifact"); }, "found none"},
        DamageCase{"ManifestChanged", [](const fs::path& entry) { write_text(entry / "manifest", "no manifest"); },
                   "manifest: cannot be read"},
        DamageCase{"ManifestGone", [](const fs::path& entry) { fs::remove(entry / "manifest"); },
                   "manifest: cannot be read"},
        DamageCase{"ManifestOfAnother",
                   [](const fs::path& entry) {
                     const auto bytes = encode({.key = key_of("-O7"), .artifact = {8, "00"}});
                     write_text(entry / "manifest", {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
                   },
                   "is of another key"}),
    [](const auto& test) { return test.param.name; });

TEST_F(CacheTest, OneThreadMakesWhileTheOthersWait) {
  const auto cache = open();
  constexpr int kThreads = 4;
  std::latch all(kThreads);
  std::atomic<int> made = 0;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      all.arrive_and_wait();
      const auto artifact = cache->get(key_of(), maker_.function()).value();
      EXPECT_EQ(read_text(artifact.path), "compiled");
      if (artifact.was_made) ++made;
    });
  }
  threads.clear();
  EXPECT_EQ(maker_.calls, 1);
  EXPECT_EQ(made, 1);
}

TEST_F(CacheTest, AFailureReachesThoseWhoWait) {
  Options retry = options();
  retry.retry_failed = true;
  const auto one = open(retry), two = open(retry);
  std::latch making(1), may_end(1);
  std::jthread maker([&] {
    one->get(key_of(),
             [&](const device::ArtifactWorkspace&) -> Result<void> {
               making.count_down();
               may_end.wait();
               return Error{ErrorKind::kDeadlineExceeded, "[neuron] too slow"};
             })
        .error();
  });
  making.wait();
  std::jthread waiter([&] { EXPECT_EQ(two->get(key_of(), never()).error().kind, ErrorKind::kDeadlineExceeded); });
  may_end.count_down();
}

TEST_F(CacheTest, WaitsNoLongerThanItsDeadlineAndSaysForWhom) {
  const auto cache = open();
  Options hasty = options();
  hasty.wait_s = 0.1;
  const auto other = open(hasty);
  const auto ask = [&](const device::ArtifactWorkspace& workspace) -> Result<void> {
    const Error error = other->get(key_of(), never()).error();
    EXPECT_EQ(error.kind, ErrorKind::kDeadlineExceeded);
    EXPECT_THAT(error.message, AllOf(HasSubstr("waited 0.1 s"), HasSubstr("--compile-wait-s"),
                                     HasSubstr("process " + std::to_string(process_id()) + " on " + host_name())));
    write_text(workspace.artifact, "x");
    return ok();
  };
  EXPECT_TRUE(cache->get(key_of(), ask).has_value());
  EXPECT_THAT(lines_.infos(), Contains(AllOf(HasSubstr("decode_64: waits for process"), HasSubstr("at most 0.1 s"))));
}

TEST_F(CacheTest, AnAbortEndsTheWait) {
  AbortFlag abort;
  abort.raise({ErrorKind::kPeerLost, "rank 3 is lost"});
  Options watched = options();
  watched.abort = &abort;
  const auto other = open(watched);
  const auto ask = [&](const device::ArtifactWorkspace&) -> Result<void> {
    return other->get(key_of(), never()).error();
  };
  EXPECT_EQ(open()->get(key_of(), ask).error().kind, ErrorKind::kPeerLost);
}

/// During its lifetime, a root process has the rights of an unprivileged user.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    if (before_ == 0) LOCKSTEP_CHECK(::seteuid(65534) == 0);
  }
  ~OrdinaryUser() { LOCKSTEP_CHECK(::seteuid(before_) == 0); }

 private:
  const uid_t before_ = ::geteuid();
};

TEST_F(CacheTest, FindsInAFolderThatCannotBeWritten) {
  open()->get(key_of(), maker_.function()).value();
  const auto every_part = [&](fs::perm_options how) {
    for (const fs::path& part :
         {directory_.path(), folder(), folder() / "entries", folder() / "locks", folder() / "making"}) {
      fs::permissions(part, fs::perms::owner_write, how);
      fs::permissions(part, fs::perms(0055), fs::perm_options::add);
    }
  };
  every_part(fs::perm_options::remove);
  {
    OrdinaryUser user;
    const auto found = open()->get(key_of(), never());
    EXPECT_TRUE(found.has_value()) << found.error().message;
    const Error error = open()->get(key_of("-O2"), never()).error();
    EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
    EXPECT_THAT(error.message, AllOf(HasSubstr("Permission denied"), HasSubstr("--compile-cache")));
  }
  every_part(fs::perm_options::add);
}

TEST_F(CacheTest, SaysWhereItCannotWrite) {
  write_text(directory_.path() / "file", "not a folder");
  Options bad = options();
  bad.folder = directory_.path() / "file" / "cache";
  const Error error = open(bad)->get(key_of(), never()).error();
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(error.message, AllOf(HasSubstr(bad.folder.string()), HasSubstr("--compile-cache")));
}

TEST_F(CacheTest, SaysThatTheDiskIsFull) {
  const auto full = [](const device::ArtifactWorkspace& workspace) -> Result<void> {
    const std::string text = workspace.log.string();
    return write_durably("/dev/full", std::as_bytes(std::span(text)));
  };
  if (!fs::exists("/dev/full")) GTEST_SKIP();
  const Error error = open()->get(key_of(), full).error();
  EXPECT_EQ(error.kind, ErrorKind::kUnavailable);
  EXPECT_THAT(error.message, HasSubstr("No space left on device; make room"));
}

TEST_F(CacheTest, RefusesToBeWithoutAFolder) {
  EXPECT_EQ(make_cache({.folder = {}}).error().kind, ErrorKind::kInvalidArgument);
}

// --- room ----------------------------------------------------------------------------------------------------------

TEST_F(CacheTest, MakesRoomByWhatWasNotUsedForLongestButNotByWhatIsInUse) {
  maker_.text = std::string(100'000, 'x');
  Options limited = options();
  limited.size_limit = 250'000;
  const auto in_use = open(limited);
  in_use->get(key_of("-O1"), maker_.function()).value();
  {
    const auto ended = open(limited);
    ended->get(key_of("-O2"), maker_.function()).value();
  }
  const auto now = fs::file_time_type::clock::now();
  fs::last_write_time(entry(key_of("-O1")) / "manifest", now - std::chrono::hours(2));
  fs::last_write_time(entry(key_of("-O2")) / "manifest", now - std::chrono::hours(1));
  open(limited)->get(key_of("-O3"), maker_.function()).value();
  EXPECT_TRUE(fs::exists(entry(key_of("-O1"))));  // the oldest, but used by a cache that lives
  EXPECT_FALSE(fs::exists(entry(key_of("-O2"))));
  EXPECT_TRUE(fs::exists(entry(key_of("-O3"))));
  EXPECT_THAT(lines_.infos(), Contains(AllOf(HasSubstr("2 artifacts"), HasSubstr("1 that had not been used"))));
}

TEST_F(CacheTest, SaysWhenItCannotMakeEnoughRoom) {
  Options limited = options();
  limited.size_limit = 3;
  const auto cache = open(limited);
  EXPECT_TRUE(cache->get(key_of(), maker_.function()).has_value());
  EXPECT_THAT(lines_.warnings(), ElementsAre(HasSubstr("larger than its limit")));
}

TEST_F(CacheTest, AHitCountsAsUse) {
  open()->get(key_of(), maker_.function()).value();
  const fs::path manifest = entry(key_of()) / "manifest";
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(2);
  fs::last_write_time(manifest, old);
  open()->get(key_of(), never()).value();
  EXPECT_GT(fs::last_write_time(manifest), old + std::chrono::hours(1));
}

}  // namespace
}  // namespace lockstep::cache
