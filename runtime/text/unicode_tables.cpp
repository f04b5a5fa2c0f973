// Differences of tokenizers 0.23.3 from Unicode 14; written by tools/make_unicode_tables.py.
#include "runtime/text/unicode_tables.h"

namespace lockstep::text {
namespace {

constexpr NewChars kNewChars[] = {
    {{0x897, 0x897}, "Mn", "Cn", "Arabic", "Arab", "a"},
    {{0xCF3, 0xCF3}, "Mc", "Cn", "Kannada", "Knda", "a"},
    {{0xECE, 0xECE}, "Mn", "Cn", "Lao", "Laoo", ""},
    {{0x1B4E, 0x1B4F}, "Po", "Cn", "Balinese", "Bali", ""},
    {{0x1B7F, 0x1B7F}, "Po", "Cn", "Balinese", "Bali", ""},
    {{0x1C89, 0x1C89}, "Lu", "Cn", "Cyrillic", "Cyrl", "au"},
    {{0x1C8A, 0x1C8A}, "Ll", "Cn", "Cyrillic", "Cyrl", "al"},
    {{0x2427, 0x2429}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x2FFC, 0x2FFF}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x31E4, 0x31E5}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x31EF, 0x31EF}, "So", "Cn", "Common", "Zyyy", ""},
    {{0xA7CB, 0xA7CC}, "Lu", "Cn", "Latin", "Latn", "au"},
    {{0xA7CD, 0xA7CD}, "Ll", "Cn", "Latin", "Latn", "al"},
    {{0xA7DA, 0xA7DA}, "Lu", "Cn", "Latin", "Latn", "au"},
    {{0xA7DB, 0xA7DB}, "Ll", "Cn", "Latin", "Latn", "al"},
    {{0xA7DC, 0xA7DC}, "Lu", "Cn", "Latin", "Latn", "au"},
    {{0x105C0, 0x105F3}, "Lo", "Cn", "", "", "a"},
    {{0x10D40, 0x10D49}, "Nd", "Cn", "", "", ""},
    {{0x10D4A, 0x10D4D}, "Lo", "Cn", "", "", "a"},
    {{0x10D4E, 0x10D4E}, "Lm", "Cn", "", "", "a"},
    {{0x10D4F, 0x10D4F}, "Lo", "Cn", "", "", "a"},
    {{0x10D50, 0x10D65}, "Lu", "Cn", "", "", "au"},
    {{0x10D69, 0x10D69}, "Mn", "Cn", "", "", "a"},
    {{0x10D6A, 0x10D6D}, "Mn", "Cn", "", "", ""},
    {{0x10D6E, 0x10D6E}, "Pd", "Cn", "", "", ""},
    {{0x10D6F, 0x10D6F}, "Lm", "Cn", "", "", "a"},
    {{0x10D70, 0x10D85}, "Ll", "Cn", "", "", "al"},
    {{0x10D8E, 0x10D8F}, "Sm", "Cn", "", "", ""},
    {{0x10EC2, 0x10EC4}, "Lo", "Cn", "Arabic", "Arab", "a"},
    {{0x10EFC, 0x10EFC}, "Mn", "Cn", "Arabic", "Arab", "a"},
    {{0x10EFD, 0x10EFF}, "Mn", "Cn", "Arabic", "Arab", ""},
    {{0x1123F, 0x11240}, "Lo", "Cn", "Khojki", "Khoj", "a"},
    {{0x11241, 0x11241}, "Mn", "Cn", "Khojki", "Khoj", "a"},
    {{0x11380, 0x11389}, "Lo", "Cn", "", "", "a"},
    {{0x1138B, 0x1138B}, "Lo", "Cn", "", "", "a"},
    {{0x1138E, 0x1138E}, "Lo", "Cn", "", "", "a"},
    {{0x11390, 0x113B5}, "Lo", "Cn", "", "", "a"},
    {{0x113B7, 0x113B7}, "Lo", "Cn", "", "", "a"},
    {{0x113B8, 0x113BA}, "Mc", "Cn", "", "", "a"},
    {{0x113BB, 0x113C0}, "Mn", "Cn", "", "", "a"},
    {{0x113C2, 0x113C2}, "Mc", "Cn", "", "", "a"},
    {{0x113C5, 0x113C5}, "Mc", "Cn", "", "", "a"},
    {{0x113C7, 0x113CA}, "Mc", "Cn", "", "", "a"},
    {{0x113CC, 0x113CD}, "Mc", "Cn", "", "", "a"},
    {{0x113CE, 0x113CE}, "Mn", "Cn", "", "", ""},
    {{0x113CF, 0x113CF}, "Mc", "Cn", "", "", ""},
    {{0x113D0, 0x113D0}, "Mn", "Cn", "", "", ""},
    {{0x113D1, 0x113D1}, "Lo", "Cn", "", "", "a"},
    {{0x113D2, 0x113D2}, "Mn", "Cn", "", "", ""},
    {{0x113D3, 0x113D3}, "Lo", "Cn", "", "", "a"},
    {{0x113D4, 0x113D5}, "Po", "Cn", "", "", ""},
    {{0x113D7, 0x113D8}, "Po", "Cn", "", "", ""},
    {{0x113E1, 0x113E2}, "Mn", "Cn", "", "", ""},
    {{0x116D0, 0x116E3}, "Nd", "Cn", "Myanmar", "Mymr", ""},
    {{0x1171E, 0x1171E}, "Mc", "Mn", "", "", "a"},
    {{0x11B00, 0x11B09}, "Po", "Cn", "Devanagari", "Deva", ""},
    {{0x11BC0, 0x11BE0}, "Lo", "Cn", "", "", "a"},
    {{0x11BE1, 0x11BE1}, "Po", "Cn", "", "", ""},
    {{0x11BF0, 0x11BF9}, "Nd", "Cn", "", "", ""},
    {{0x11F00, 0x11F01}, "Mn", "Cn", "", "", "a"},
    {{0x11F02, 0x11F02}, "Lo", "Cn", "", "", "a"},
    {{0x11F03, 0x11F03}, "Mc", "Cn", "", "", "a"},
    {{0x11F04, 0x11F10}, "Lo", "Cn", "", "", "a"},
    {{0x11F12, 0x11F33}, "Lo", "Cn", "", "", "a"},
    {{0x11F34, 0x11F35}, "Mc", "Cn", "", "", "a"},
    {{0x11F36, 0x11F3A}, "Mn", "Cn", "", "", "a"},
    {{0x11F3E, 0x11F3F}, "Mc", "Cn", "", "", "a"},
    {{0x11F40, 0x11F40}, "Mn", "Cn", "", "", "a"},
    {{0x11F41, 0x11F41}, "Mc", "Cn", "", "", ""},
    {{0x11F42, 0x11F42}, "Mn", "Cn", "", "", ""},
    {{0x11F43, 0x11F4F}, "Po", "Cn", "", "", ""},
    {{0x11F50, 0x11F59}, "Nd", "Cn", "", "", ""},
    {{0x11F5A, 0x11F5A}, "Mn", "Cn", "", "", ""},
    {{0x1342F, 0x1342F}, "Lo", "Cn", "Egyptian_Hieroglyphs", "Egyp", "a"},
    {{0x13439, 0x1343F}, "Cf", "Cn", "Egyptian_Hieroglyphs", "Egyp", ""},
    {{0x13440, 0x13440}, "Mn", "Cn", "Egyptian_Hieroglyphs", "Egyp", ""},
    {{0x13441, 0x13446}, "Lo", "Cn", "Egyptian_Hieroglyphs", "Egyp", "a"},
    {{0x13447, 0x13455}, "Mn", "Cn", "Egyptian_Hieroglyphs", "Egyp", ""},
    {{0x13460, 0x143FA}, "Lo", "Cn", "Egyptian_Hieroglyphs", "Egyp", "a"},
    {{0x16100, 0x1611D}, "Lo", "Cn", "", "", "a"},
    {{0x1611E, 0x16129}, "Mn", "Cn", "", "", "a"},
    {{0x1612A, 0x1612C}, "Mc", "Cn", "", "", "a"},
    {{0x1612D, 0x1612E}, "Mn", "Cn", "", "", "a"},
    {{0x1612F, 0x1612F}, "Mn", "Cn", "", "", ""},
    {{0x16130, 0x16139}, "Nd", "Cn", "", "", ""},
    {{0x16D40, 0x16D42}, "Lm", "Cn", "", "", "a"},
    {{0x16D43, 0x16D6A}, "Lo", "Cn", "", "", "a"},
    {{0x16D6B, 0x16D6C}, "Lm", "Cn", "", "", "a"},
    {{0x16D6D, 0x16D6F}, "Po", "Cn", "", "", ""},
    {{0x16D70, 0x16D79}, "Nd", "Cn", "", "", ""},
    {{0x18CFF, 0x18CFF}, "Lo", "Cn", "Khitan_Small_Script", "Kits", "a"},
    {{0x1B132, 0x1B132}, "Lo", "Cn", "Hiragana", "Hira", "a"},
    {{0x1B155, 0x1B155}, "Lo", "Cn", "Katakana", "Kana", "a"},
    {{0x1CC00, 0x1CCEF}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1CCF0, 0x1CCF9}, "Nd", "Cn", "Common", "Zyyy", ""},
    {{0x1CD00, 0x1CEB3}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1D2C0, 0x1D2D3}, "No", "Cn", "Common", "Zyyy", ""},
    {{0x1DF25, 0x1DF2A}, "Ll", "Cn", "Latin", "Latn", "al"},
    {{0x1E030, 0x1E06D}, "Lm", "Cn", "Cyrillic", "Cyrl", "al"},
    {{0x1E08F, 0x1E08F}, "Mn", "Cn", "Cyrillic", "Cyrl", "a"},
    {{0x1E4D0, 0x1E4EA}, "Lo", "Cn", "", "", "a"},
    {{0x1E4EB, 0x1E4EB}, "Lm", "Cn", "", "", "a"},
    {{0x1E4EC, 0x1E4EF}, "Mn", "Cn", "", "", ""},
    {{0x1E4F0, 0x1E4F9}, "Nd", "Cn", "", "", ""},
    {{0x1E5D0, 0x1E5ED}, "Lo", "Cn", "", "", "a"},
    {{0x1E5EE, 0x1E5EF}, "Mn", "Cn", "", "", ""},
    {{0x1E5F0, 0x1E5F0}, "Lo", "Cn", "", "", "a"},
    {{0x1E5F1, 0x1E5FA}, "Nd", "Cn", "", "", ""},
    {{0x1E5FF, 0x1E5FF}, "Po", "Cn", "", "", ""},
    {{0x1F6DC, 0x1F6DC}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1F774, 0x1F776}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1F77B, 0x1F77F}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1F7D9, 0x1F7D9}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1F8B2, 0x1F8BB}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1F8C0, 0x1F8C1}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FA75, 0x1FA77}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FA87, 0x1FA89}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FA8F, 0x1FA8F}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FAAD, 0x1FAAF}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FABB, 0x1FABF}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FAC6, 0x1FAC6}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FACE, 0x1FACF}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FADA, 0x1FADC}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FADF, 0x1FADF}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FAE8, 0x1FAE9}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FAF7, 0x1FAF8}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x1FBCB, 0x1FBEF}, "So", "Cn", "Common", "Zyyy", ""},
    {{0x2B739, 0x2B739}, "Lo", "Cn", "Han", "Hani", "a"},
    {{0x2EBF0, 0x2EE5D}, "Lo", "Cn", "Han", "Hani", "a"},
    {{0x31350, 0x323AF}, "Lo", "Cn", "Han", "Hani", "a"},
};

constexpr LowerCase kLowerCases[] = {
    {{0x1C89, 0x1C89}, 1},    {{0xA7CB, 0xA7CB}, -42343}, {{0xA7CC, 0xA7CC}, 1}, {{0xA7CE, 0xA7CE}, 1},
    {{0xA7D2, 0xA7D2}, 1},    {{0xA7D4, 0xA7D4}, 1},      {{0xA7DA, 0xA7DA}, 1}, {{0xA7DC, 0xA7DC}, -42561},
    {{0x10D50, 0x10D65}, 32}, {{0x16EA0, 0x16EB8}, 27},
};

// Digits counts these as well.
constexpr CharRange kNumerals[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};

// For Punctuation, these are punctuation if and only if their category is another.
constexpr CharRange kPunctuation[] = {
    {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0x166D, 0x166D},   {0x1B4E, 0x1B4F},   {0x1B7D, 0x1B7F},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},
    {0x10D6E, 0x10D6E}, {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x111C9, 0x111C9},
    {0x113D4, 0x113D5}, {0x113D7, 0x113D8}, {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145D},
    {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2},
    {0x11A3F, 0x11A46}, {0x11A9A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11BE1, 0x11BE1},
    {0x11C41, 0x11C45}, {0x11C70, 0x11C71}, {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF},
    {0x12FF1, 0x12FF2}, {0x16D6D, 0x16D6F}, {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2}, {0x1E5FF, 0x1E5FF},
    {0x1E95E, 0x1E95F}};

// For StripAccents, these are marks if and only if their category is another.
constexpr CharRange kAccents[] = {
    {0x7FD, 0x7FD},     {0x897, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xAFA, 0xAFF},
    {0xB55, 0xB55},     {0xC04, 0xC04},     {0xC3C, 0xC3C},     {0xCF3, 0xCF3},     {0xD00, 0xD00},
    {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},     {0x1715, 0x1715},
    {0x180F, 0x180F},   {0x1ABF, 0x1ACE},   {0x1CF2, 0x1CF3},   {0x1CF7, 0x1CF7},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0xA8FF, 0xA8FF},   {0x10D24, 0x10D27}, {0x10D69, 0x10D6D}, {0x10EAB, 0x10EAC},
    {0x10EFC, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x11073, 0x11074},
    {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF}, {0x11241, 0x11241},
    {0x1133B, 0x1133B}, {0x113B8, 0x113C0}, {0x113C2, 0x113C2}, {0x113C5, 0x113C5}, {0x113C7, 0x113CA},
    {0x113CC, 0x113D0}, {0x113D2, 0x113D2}, {0x113E1, 0x113E2}, {0x1145E, 0x1145E}, {0x1182C, 0x1183A},
    {0x11930, 0x11935}, {0x11937, 0x11938}, {0x1193B, 0x1193E}, {0x11940, 0x11940}, {0x11942, 0x11943},
    {0x119D1, 0x119D7}, {0x119DA, 0x119E0}, {0x119E4, 0x119E4}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A39},
    {0x11A3B, 0x11A3E}, {0x11A47, 0x11A47}, {0x11A51, 0x11A5B}, {0x11A8A, 0x11A99}, {0x11D31, 0x11D36},
    {0x11D3A, 0x11D3A}, {0x11D3C, 0x11D3D}, {0x11D3F, 0x11D45}, {0x11D47, 0x11D47}, {0x11D8A, 0x11D8E},
    {0x11D90, 0x11D91}, {0x11D93, 0x11D97}, {0x11EF3, 0x11EF6}, {0x11F00, 0x11F01}, {0x11F03, 0x11F03},
    {0x11F34, 0x11F3A}, {0x11F3E, 0x11F42}, {0x11F5A, 0x11F5A}, {0x13440, 0x13440}, {0x13447, 0x13455},
    {0x1611E, 0x1612F}, {0x16F4F, 0x16F4F}, {0x16F7F, 0x16F87}, {0x16FE4, 0x16FE4}, {0x16FF0, 0x16FF1},
    {0x1CF00, 0x1CF2D}, {0x1CF30, 0x1CF46}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF}, {0x1E5EE, 0x1E5EF}};

// No normal form decomposes these.
constexpr CharRange kCanonical[] = {{0x11938, 0x11938}};

// NFKC and NFKD do not decompose these.
constexpr CharRange kCompatible[] = {{0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},
                                     {0x10781, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA},
                                     {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9}};

}  // namespace

std::span<const NewChars> new_chars() { return kNewChars; }
std::span<const LowerCase> new_lower_cases() { return kLowerCases; }

std::span<const CharRange> exceptions(UnicodeUse use) {
  switch (use) {
    case UnicodeUse::kDigits: return kNumerals;
    case UnicodeUse::kPunctuation: return kPunctuation;
    case UnicodeUse::kStripAccents: return kAccents;
    case UnicodeUse::kDecompose: return kCanonical;
    case UnicodeUse::kDecomposeCompatible: return kCompatible;
  }
  return {};
}

}  // namespace lockstep::text
