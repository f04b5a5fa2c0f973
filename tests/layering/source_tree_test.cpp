// Checks the project's own sources with the layering rules.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "tests/layering/house_rules.h"

namespace lockstep::layering {
namespace {

namespace fs = std::filesystem;
using ::testing::IsEmpty;

const fs::path kRoot = LOCKSTEP_SOURCE_DIR;
constexpr const char* kSourceFolders[] = {"runtime", "shards",   "transport", "actors",
                                          "engine",  "launcher", "examples",  "tests"};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Every C++ source of the project, in order of path.
std::vector<Source> project_sources() {
  std::vector<Source> sources;
  for (const char* folder : kSourceFolders) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      sources.push_back({fs::relative(entry.path(), kRoot).generic_string(), read(entry.path())});
    }
  }
  std::ranges::sort(sources, {}, &Source::path);
  return sources;
}

TEST(SourceTree, BreaksNoHouseRule) {
  const std::vector<Source> sources = project_sources();
  ASSERT_GT(sources.size(), 30u) << "the scan found too little in " << kRoot;
  std::vector<std::string> broken;
  for (const Source& source : sources) {
    for (const Violation& violation : violations_of(house_rules(), source)) broken.push_back(to_string(violation));
  }
  EXPECT_THAT(broken, IsEmpty()) << fmt::format("{}", fmt::join(broken, "\n"));
}

TEST(SourceTree, OnlyTheListOfDriversNamesBackends) {
  const std::regex name(R"("(cuda|neuron|reference)["-])");  // "cpu" is the default
  for (const Source& source : project_sources()) {
    const bool may = source.path.starts_with("runtime/") || source.path.starts_with("tests/");
    EXPECT_TRUE(may || !std::regex_search(source.text, name)) << source.path << " names a backend: ask its driver";
  }
}

/// The source file of an include: a header, or the schema from which the build makes the header.
fs::path origin_of(const std::string& include) {
  if (include.starts_with("lockstep/")) return kRoot / "engine/include" / include;
  if (include.ends_with(".capnp.h")) return kRoot / include.substr(0, include.size() - 2);
  if (include.ends_with(".pb.h")) return kRoot / (include.substr(0, include.size() - 5) + ".proto");
  return kRoot / include;
}

TEST(SourceTree, IncludesOnlyHeadersThatExist) {
  for (const Source& source : project_sources()) {
    for (const Include& include : includes_of(source.text)) {
      if (include.angled) continue;
      EXPECT_TRUE(fs::exists(origin_of(include.name))) << source.path << ":" << include.line << ": " << include.name;
    }
  }
}

/// The folder of a file.
std::string folder_of_file(const std::string& path) { return fs::path(path).parent_path().generic_string(); }

/// The folders that each folder includes; headers of the library's users count as engine/include.
std::map<std::string, std::set<std::string>> folders_included() {
  std::map<std::string, std::set<std::string>> included;
  for (const Source& source : project_sources()) {
    for (const Include& include : includes_of(source.text)) {
      if (include.angled) continue;
      included[folder_of_file(source.path)].insert(
          folder_of_file(fs::relative(origin_of(include.name), kRoot).generic_string()));
    }
  }
  return included;
}

TEST(SourceTree, NoTwoFoldersIncludeEachOther) {
  const auto included = folders_included();
  const auto includes = [&](const std::string& from, const std::string& to) {
    const auto found = included.find(from);
    return found != included.end() && found->second.contains(to);
  };
  for (const auto& [folder, others] : included) {
    for (const std::string& other : others) {
      const bool is_inside =
          other.starts_with(folder + "/") || folder.starts_with(other + "/");  // a part and its whole
      if (other == folder || is_inside || folder.starts_with("tests/")) continue;
      EXPECT_FALSE(includes(other, folder)) << folder << " and " << other << " include each other";
    }
  }
}

TEST(SourceTree, HeadersAreIncludedOnce) {
  for (const Source& source : project_sources()) {
    if (!source.path.ends_with(".h")) continue;
    EXPECT_NE(code_of(source.text).find("#pragma once"), std::string::npos) << source.path;
  }
}

TEST(SourceTree, EveryFolderExplainsItself) {
  std::vector<std::string> folders = {"runtime", "cmake", "scripts", "tools"};
  for (const FolderRule& rule : house_rules().folders) folders.push_back(rule.folder);
  for (const std::string& folder : folders) {
    if (!fs::is_directory(kRoot / folder)) continue;  // a file, or a row for a future folder
    const std::string readme = read(kRoot / folder / "README.md");
    EXPECT_FALSE(readme.empty()) << folder << "/README.md is missing or empty";
    EXPECT_LE(std::ranges::count(readme, '\n'), 80) << folder << "/README.md is longer than a page";
  }
}

}  // namespace
}  // namespace lockstep::layering
