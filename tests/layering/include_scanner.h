// Finds violations of the layering rules in sources: includes, third parties, and words that only some folders may use.
// Pure: a source is a path and its text, the rules are data (house_rules.h), so a planted violation is three lines of a
// test.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep::layering {

/// One file; the path is relative to the project's root, with forward slashes.
struct Source {
  std::string path;
  std::string text;
};

/// A folder (or one file) and its allowed includes. A file belongs to the row with the longest matching name.
///
/// `may_include` names folders: "runtime/core" is that folder alone, "runtime/*" every folder directly below
/// runtime, "**" everything. A folder may always include itself.
/// `public_headers`, if there are any, are the only ones that other folders may include; tests may include all.
struct FolderRule {
  std::string folder;
  std::vector<std::string> may_include;
  std::vector<std::string> public_headers = {};
};

/// Includes in angle brackets that start with `prefix` and the folders or files that may use them (patterns as above).
struct ThirdPartyRule {
  std::string prefix;
  std::vector<std::string> folders;
};

/// A regular expression that code (not comments, not string literals) may match in these folders and files only.
struct WordRule {
  std::string pattern;
  std::vector<std::string> folders;
  std::string instead;  // the fix
};

struct Rules {
  std::vector<FolderRule> folders;
  std::vector<ThirdPartyRule> third_parties;
  std::vector<WordRule> words;
  std::vector<std::string> banned_names;  // parts of a file's name, as in string_utils.h
};

/// A broken rule. `line` counts from 1; 0 when it is about the file itself.
struct Violation {
  std::string path;
  int line = 0;
  std::string message;

  friend bool operator==(const Violation&, const Violation&) = default;
};

/// "path:line: message".
std::string to_string(const Violation& violation);

/// One #include.
struct Include {
  int line = 0;
  bool angled = false;  // <…>
  std::string name;

  friend bool operator==(const Include&, const Include&) = default;
};

/// The includes of a source, without those that are commented out.
std::vector<Include> includes_of(std::string_view text);

/// `text` with comments and the contents of literals blanked; lines keep their numbers.
std::string code_of(std::string_view text);

/// The row of `rules` for `path`; null if there is none.
const FolderRule* folder_of(const Rules& rules, std::string_view path);

/// Everything in `source` that breaks a rule, in order of lines.
std::vector<Violation> violations_of(const Rules& rules, const Source& source);

}  // namespace lockstep::layering
