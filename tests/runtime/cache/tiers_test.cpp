#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cache/cache.h"
#include "runtime/cache/folder.h"
#include "runtime/cache/key.h"
#include "tests/runtime/cache/cache_fixture.h"

namespace lockstep::cache {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// --- further folders -----------------------------------------------------------------------------------------------

TEST_F(CacheTest, FillsAFurtherFolderAndTakesFromIt) {
  Options shared = options();
  shared.further = {(directory_.path() / "shared").string()};
  open(shared)->get(key_of(), maker_.function()).value();
  shared.folder = directory_.path() / "another-machine";
  const auto cache = open(shared);
  const auto found = cache->get(key_of(), never()).value();
  EXPECT_EQ(read_text(found.path), "compiled");
  EXPECT_EQ(found.origin, "from " + shared.further.front());
  EXPECT_THAT(found.path.string(), HasSubstr("another-machine"));  // a copy, that stays when the other goes
  fs::remove_all(shared.further.front());
  EXPECT_TRUE(open(shared)->get(key_of(), never()).has_value());
}

TEST_F(CacheTest, FillsTheFoldersThatItAskedBefore) {
  Options shared = options();
  shared.further = {(directory_.path() / "old").string()};
  open(shared)->get(key_of(), maker_.function()).value();
  shared.folder = directory_.path() / "another-machine";
  shared.further.insert(shared.further.begin(), (directory_.path() / "new").string());
  EXPECT_TRUE(open(shared)->get(key_of(), never()).has_value());
  EXPECT_TRUE(open_artifacts(shared.further.front(), lines_.taker()).value()->get(key_of(), never()).has_value());
}

TEST_F(CacheTest, TakesFromAFurtherFolderWhatFailedHere) {
  open()->get(key_of(), failing_.function()).error();
  wait_for_next_start();
  Options elsewhere = options();
  elsewhere.folder = directory_.path() / "shared";
  open(elsewhere)->get(key_of(), maker_.function()).value();
  Options shared = options();
  shared.further = {elsewhere.folder.string()};
  EXPECT_TRUE(open(shared)->get(key_of(), never()).has_value());
}

TEST_F(CacheTest, NamesTheNearestArtifactOfAFurtherFolder) {
  Options shared = options();
  shared.further = {(directory_.path() / "shared").string()};
  open(shared)->get(key_of("-O1"), maker_.function()).value();
  shared.folder = directory_.path() / "another-machine";
  shared.require_cached = true;
  EXPECT_TRUE(open(shared)->get(key_of("-O1"), never()).has_value());
  fs::remove_all(shared.folder);
  EXPECT_THAT(open(shared)->get(key_of("-O2"), never()).error().message,
              HasSubstr(R"(flags: found "-O1", expected "-O2")"));
}

TEST_F(CacheTest, RepairsADamagedArtifactOfAFurtherFolder) {
  Options shared = options();
  shared.further = {(directory_.path() / "shared").string()};
  open(shared)->get(key_of(), maker_.function()).value();
  const fs::path theirs = directory_.path() / "shared" / "entries" / address_of(key_of()) / "artifact";
  write_text(theirs, "Compiled");
  shared.folder = directory_.path() / "another-machine";
  EXPECT_TRUE(open(shared)->get(key_of(), maker_.function()).value().was_made);
  EXPECT_THAT(lines_.warnings(), ElementsAre(HasSubstr("damaged")));
  EXPECT_EQ(read_text(theirs), "compiled");
}

TEST_F(CacheTest, GoesAroundAFurtherFolderThatCannotBeUsed) {
  write_text(directory_.path() / "file", "not a folder");
  Options shared = options();
  shared.further = {(directory_.path() / "file" / "shared").string()};
  const auto cache = open(shared);
  EXPECT_TRUE(cache->get(key_of("-O1"), maker_.function()).has_value());
  EXPECT_TRUE(cache->get(key_of("-O2"), maker_.function()).has_value());
  EXPECT_THAT(lines_.warnings(), ElementsAre(HasSubstr("goes on without")));  // once
}

// --- exported folders ----------------------------------------------------------------------------------------------

class ArtifactsTest : public CacheTest {
 protected:
  ArtifactsTest() {
    const auto made = open()->get(key_of(), maker_.function()).value();
    const ExportedArtifact one{key_of(), made.path};
    EXPECT_EQ(export_artifacts(exported_, std::span(&one, 1), "build-1").value(), 8u);
  }

  const fs::path exported_ = directory_.path() / "exported";
};

TEST_F(ArtifactsTest, AreUsedWithoutMakingAnything) {
  const auto artifacts = open_artifacts(exported_, lines_.taker()).value();
  const auto found = artifacts->get(key_of(), never()).value();
  EXPECT_EQ(read_text(found.path), "compiled");
  EXPECT_EQ(found.path.string().find(exported_.string()), 0u);
  EXPECT_TRUE(artifacts->get(key_of("-O1", "aa11", ""), never()).has_value());
}

TEST_F(ArtifactsTest, AreRefusedWithTheFieldThatDiffers) {
  const auto artifacts = open_artifacts(exported_, lines_.taker()).value();
  const Error error = artifacts->get(key_of("-O2"), never()).error();
  EXPECT_EQ(error.kind, ErrorKind::kFailedPrecondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr(R"(flags: found "-O1", expected "-O2")"), HasSubstr(exported_.string())));
  write_text(exported_ / "entries" / address_of(key_of()) / "artifact", "Compiled");
  EXPECT_THAT(artifacts->get(key_of(), never()).error().message, HasSubstr("damaged"));
}

TEST_F(ArtifactsTest, AreExportedOnce) {
  const ExportedArtifact one{key_of(), entry(key_of()) / "artifact"};
  EXPECT_EQ(export_artifacts(exported_, std::span(&one, 1), "build-1").value(), 0u);
  EXPECT_THAT(inside(exported_), SizeIs(1));  // entries, and nothing else
}

TEST_F(ArtifactsTest, KeepWhatIsKnownOfThem) {
  EXPECT_THAT(Folder(exported_).manifests(), ElementsAre(Folder(folder()).manifests().front()));
}

TEST_F(ArtifactsTest, OfAMachineThatDoesNotKnowAllFieldsTakeThemFromTheManifest) {
  const ExportedArtifact unknown{key_of("-O1", "aa11", ""), entry(key_of()) / "artifact"};
  const fs::path to = directory_.path() / "exported-too";
  ASSERT_TRUE(export_artifacts(to, std::span(&unknown, 1), "build-1").has_value());
  EXPECT_TRUE(open_artifacts(to, lines_.taker()).value()->get(key_of(), never()).has_value());
}

TEST_F(ArtifactsTest, AreNotExportedWhenTheyAreDamaged) {
  write_text(entry(key_of()) / "artifact", "Compiled");
  const ExportedArtifact one{key_of(), entry(key_of()) / "artifact"};
  EXPECT_THAT(export_artifacts(exported_, std::span(&one, 1), "build-1").error().message, HasSubstr("damaged"));
}

TEST(Artifacts, AreNotFoundWhereThereAreNone) {
  TemporaryDirectory directory;
  EXPECT_EQ(open_artifacts(directory.path(), [](LogLevel, const std::string&) {}).error().kind, ErrorKind::kNotFound);
}

}  // namespace
}  // namespace lockstep::cache
