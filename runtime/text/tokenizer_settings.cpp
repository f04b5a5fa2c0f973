#include "runtime/text/tokenizer_settings.h"

#include <algorithm>
#include <array>
#include <map>
#include <ranges>
#include <utility>

#include "runtime/gguf/model_texts.h"
#include "runtime/text/json_field.h"

namespace lockstep::text {
namespace {

using nlohmann::json;

/// The names of special tokens that every class has, in transformers' order.
constexpr std::array<std::string_view, 7> kNames = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                    "pad_token", "cls_token", "mask_token"};

/// A JSON object.
struct Document {
  std::string origin;
  json values = json::object();
  nlohmann::ordered_json ordered = nlohmann::ordered_json::object();  // in the order of the text

  JsonField root() const { return JsonField(values, origin); }
};

/// An object without members where there is no such file.
Result<Document> read_document(const std::filesystem::path& path) {
  Document document{.origin = path.string()};
  LOCKSTEP_TRY(const auto text, gguf::read_model_text(path));
  if (!text) return document;
  document.values = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!document.values.is_object()) return document.root().invalid("no JSON object", "a JSON object");
  document.ordered = nlohmann::ordered_json::parse(*text);
  return document;
}

bool is_usual(std::string_view name) { return std::ranges::find(kNames, name) != kNames.end(); }

/// The special tokens of a class without any settings.
Document defaults_of(const TokenizerClass& chosen) {
  return {std::string(chosen.name), json::parse(chosen.special_tokens),
          nlohmann::ordered_json::parse(chosen.special_tokens)};
}

AddedToken plain_special(std::string content) {
  AddedToken token;
  token.content = std::move(content);
  token.special = true;
  return token;
}

/// Whether `token` is as one that is written as a text.
bool is_plain(const AddedToken& token) {
  return !token.single_word && !token.lstrip && !token.rstrip && !token.normalized;
}

bool contains(const auto& tokens, std::string_view content) {
  return std::ranges::any_of(tokens, [&](const AddedToken& token) { return token.content == content; });
}

auto tokens_of(const std::vector<SpecialToken>& special) {
  return special | std::views::transform(&SpecialToken::token);
}

/// A special token: a text, or an object with its settings.
Result<AddedToken> special_token(const JsonField& field) {
  if (!field.value().is_object()) {
    LOCKSTEP_TRY(std::string content, field.string());
    return plain_special(std::move(content));
  }
  LOCKSTEP_TRY(AddedToken token, parse_added_token(field));
  token.special = true;
  return token;
}

/// Puts `special` in place of the one of its name.
void name_token(std::vector<SpecialToken>& named, SpecialToken special) {
  const auto entry = std::ranges::find(named, special.name, &SpecialToken::name);
  if (entry == named.end()) {
    named.push_back(std::move(special));
  } else {
    *entry = std::move(special);
  }
}

/// Named special tokens. Which of two with the same name counts, and which gets its id first, is as in transformers.
struct NamedTokens {
  std::vector<SpecialToken> found;  // those with usual names, in any order, and others
  std::vector<SpecialToken> given;  // texts with other names; they count more than `found`

  std::vector<SpecialToken> in_order() && {
    for (SpecialToken& special : given) name_token(found, std::move(special));
    std::ranges::stable_sort(found, {}, [](const SpecialToken& special) {
      return std::ranges::find(kNames, special.name) - kNames.begin();
    });
    return std::move(found);
  }
};

/// Adds the tokens of `document`; null removes one.
Result<void> read_named(const Document& document, bool is_config, NamedTokens& named) {
  for (const auto& [key, value] : document.ordered.items()) {
    const bool usual = is_usual(key);
    if (!usual && !key.ends_with("_token")) continue;
    if (value.is_null()) {
      std::erase_if(named.found, [&](const SpecialToken& special) { return special.name == key; });
      continue;
    }
    if (!usual && !value.is_string() && !value.is_object()) continue;  // add_bos_token
    LOCKSTEP_TRY(const JsonField field, document.root().at(key));
    LOCKSTEP_TRY(AddedToken token, special_token(field));
    name_token(is_config && !usual && value.is_string() ? named.given : named.found, {key, std::move(token)});
  }
  return ok();
}

/// Special tokens without a name.
using Extra = std::optional<std::vector<AddedToken>>;

/// The list `key`; where it is an object, its tokens are named ones, and there is no list.
Result<Extra> read_extra(const Document& document, const std::string& key, NamedTokens& named) {
  const auto field = document.root().find(key);
  if (!field) return Extra();
  if (field->value().is_object()) {
    for (const auto& [name, value] : document.ordered[key].items()) {
      LOCKSTEP_TRY(const JsonField member, field->at(name));
      LOCKSTEP_TRY(AddedToken token, special_token(member));
      name_token(named.given, {name, std::move(token)});
    }
    return Extra();
  }
  LOCKSTEP_TRY(const auto elements, field->elements());
  Extra extra(std::in_place);
  for (const JsonField& element : elements) {
    LOCKSTEP_TRY(AddedToken token, special_token(element));
    extra->push_back(std::move(token));
  }
  return extra;
}

/// {"0": {"content": "<s>", …}, …}
Result<std::vector<AddedToken>> tokens_by_id(const JsonField& object) {
  std::map<int64_t, AddedToken> by_id;
  for (const auto& [key, value] : object.value().items()) {
    LOCKSTEP_TRY(const JsonField field, object.at(key));
    const json number = json::parse(key, nullptr, /*allow_exceptions=*/false);
    if (!number.is_number_integer()) return field.invalid(fmt::format("the key \"{}\"", key), "an id");
    LOCKSTEP_TRY(by_id[number.get<int64_t>()], parse_added_token(field));
  }
  std::vector<AddedToken> tokens;
  for (auto& [id, token] : by_id) tokens.push_back(std::move(token));
  return tokens;
}

/// {"<token>": id, …}; those that are special tokens are special.
Result<std::vector<AddedToken>> older_tokens(const JsonField& object, const std::vector<SpecialToken>& named,
                                             const Extra& extra) {
  std::vector<AddedToken> tokens;
  for (const auto& [content, value] : object.value().items()) {
    LOCKSTEP_TRY(const JsonField field, object.at(content));
    LOCKSTEP_TRY(const int64_t id, field.integer(0, kMaxIds - 1));
    AddedToken token = plain_special(content);
    token.id = static_cast<int32_t>(id);
    token.special = std::ranges::any_of(
        named, [&](const SpecialToken& special) { return is_usual(special.name) && special.token.content == content; });
    token.special = token.special || (extra && contains(*extra, content));
    token.normalized = !token.special;
    tokens.push_back(std::move(token));
  }
  return tokens;
}

/// `chat_template`: a text, or several by name: a list of {"name": …, "template": …}, or an object.
Result<std::map<std::string, std::string>> configured_templates(const JsonField& config) {
  std::map<std::string, std::string> templates;
  const auto field = config.find("chat_template");
  if (!field) return templates;
  if (field->value().is_string()) {
    LOCKSTEP_TRY(templates["default"], field->string());
    return templates;
  }
  if (field->value().is_object()) {
    for (const auto& [name, value] : field->value().items()) {
      LOCKSTEP_TRY(const JsonField source, field->at(name));
      LOCKSTEP_TRY(templates[name], source.string());
    }
    return templates;
  }
  LOCKSTEP_TRY(const auto choices, field->elements());
  for (const JsonField& choice : choices) {
    LOCKSTEP_TRY(const std::string name, choice.string_or("name", ""));
    LOCKSTEP_TRY(const JsonField source, choice.at("template"));
    LOCKSTEP_TRY(templates[name], source.string());
  }
  return templates;
}

std::string_view without_fast(std::string_view name) {
  if (name.ends_with("Fast")) name.remove_suffix(4);
  return name;
}

const TokenizerClass* find_class(std::string_view name) {
  const auto classes = tokenizer_classes();
  const auto entry = std::ranges::find(classes, without_fast(name), &TokenizerClass::name);
  return entry == classes.end() ? nullptr : &*entry;
}

/// The class that transformers takes for `config`, tokenizer_config.json; null: its general one. A Llama class is not
/// for a byte-level tokenizer.json.
Result<const TokenizerClass*> choose_class(const JsonField& config, const JsonField& model,
                                           const std::filesystem::path& directory) {
  LOCKSTEP_TRY(const std::string model_type, model.string_or("model_type", ""));
  LOCKSTEP_TRY(const std::string of_model, model.string_or("tokenizer_class", ""));
  LOCKSTEP_TRY(const std::string named, config.string_or("tokenizer_class", of_model));
  const auto map = config.find("auto_map");
  const bool has_own_code = map && (map->value().is_array() || map->find("AutoTokenizer"));
  const auto all = registered_classes();
  const auto registered = std::ranges::find(all, model_type, &RegisteredClass::model_type);
  if (named.empty()) return registered == all.end() ? nullptr : find_class(registered->name);
  if (has_own_code) return find_class(named);  // that code does not run
  if (registered != all.end() && registered->prevails) return find_class(registered->name);
  if (registered != all.end() && registered->name.empty()) return nullptr;
  if (without_fast(named) == "LlamaTokenizer") {
    LOCKSTEP_TRY(const auto tokenizer, gguf::read_model_text(directory / "tokenizer.json"));
    if (tokenizer && tokenizer->find("\"ByteLevel\"") != std::string::npos) return nullptr;
  }
  return find_class(named);
}

}  // namespace

std::string TokenizerSettings::text_of(std::string_view name) const {
  const auto entry = std::ranges::find(named, name, &SpecialToken::name);
  return entry == named.end() ? std::string() : entry->token.content;
}

std::vector<AddedToken> TokenizerSettings::added_tokens(const std::vector<AddedToken>& of_file) const {
  std::map<int32_t, AddedToken> by_id;
  if (!listed) {
    for (const AddedToken& token : older) by_id[token.id] = token;
    for (const AddedToken& token : of_file) by_id[token.id] = token;
  }
  std::vector<AddedToken> wanted = listed.value_or(std::vector<AddedToken>());
  for (auto& [id, token] : by_id) wanted.push_back(std::move(token));

  std::vector<AddedToken> all;
  if (tokenizer_class == nullptr) all = of_file;
  const size_t known = all.size();
  all.insert(all.end(), wanted.begin(), wanted.end());  // transformers adds those of the file again, too
  std::vector<AddedToken> missing;
  const auto add_missing = [&](const AddedToken& token) {
    const auto is_same = [&](const AddedToken& one) { return is_plain(one) && one.content == token.content; };
    if (contains(all, token.content) || (is_plain(token) && std::ranges::any_of(missing, is_same))) return;
    missing.push_back(token);
  };
  std::ranges::for_each(tokens_of(named), add_missing);
  std::ranges::for_each(extra, add_missing);
  std::ranges::move(missing, std::back_inserter(all));
  for (auto token = all.begin() + known; token != all.end(); ++token) {
    token->special = token->special || contains(tokens_of(named), token->content);
  }
  const bool adds_named = tokenizer_class != nullptr && tokenizer_class->adds_named_again;
  const bool adds_extra = tokenizer_class != nullptr && tokenizer_class->adds_extra_again;
  for (const SpecialToken& special : named) {
    if (adds_named) {
      all.push_back(plain_special(special.token.content));
    } else if (adds_extra && !is_usual(special.name)) {
      all.push_back(special.token);
    }
  }
  for (const AddedToken& token : extra) {
    if (adds_extra) all.push_back(plain_special(token.content));
  }
  return all;
}

Result<TokenizerSettings> read_tokenizer_settings(const std::filesystem::path& directory) {
  const auto path = directory / "tokenizer_config.json";
  LOCKSTEP_TRY(const Document document, read_document(path));
  const JsonField config = document.root();
  TokenizerSettings settings;
  NamedTokens named;
  if (!gguf::is_inside(path)) {
    LOCKSTEP_TRY(const Document model, read_document(directory / "config.json"));
    LOCKSTEP_TRY(settings.tokenizer_class, choose_class(config, model.root(), directory));
  }
  const TokenizerClass* chosen = settings.tokenizer_class;
  if (chosen != nullptr) {
    LOCKSTEP_TRY_VOID(read_named(defaults_of(*chosen), /*is_config=*/false, named));
    LOCKSTEP_TRY(settings.adds_prefix, config.boolean_or("add_prefix_space", chosen->adds_prefix));
    LOCKSTEP_TRY(settings.legacy, config.boolean_or("legacy", false));
  }
  LOCKSTEP_TRY(settings.splits_special_tokens, config.boolean_or("split_special_tokens", false));
  LOCKSTEP_TRY(settings.chat_templates, configured_templates(config));
  LOCKSTEP_TRY_VOID(read_named(document, /*is_config=*/true, named));
  LOCKSTEP_TRY(Extra extra, read_extra(document, "extra_special_tokens", named));
  LOCKSTEP_TRY(Extra older_extra, read_extra(document, "additional_special_tokens", named));
  const auto field = config.find("extra_special_tokens");
  if (older_extra && (!field || field->value().empty())) extra = std::exchange(older_extra, std::nullopt);
  if (const auto listed = config.find("added_tokens_decoder")) {
    LOCKSTEP_TRY(settings.listed, tokens_by_id(*listed));
  } else {
    LOCKSTEP_TRY(const Document map, read_document(directory / "special_tokens_map.json"));
    LOCKSTEP_TRY_VOID(read_named(map, /*is_config=*/false, named));
    LOCKSTEP_TRY(const Extra more, read_extra(map, "extra_special_tokens", named));
    if (more && !extra) extra.emplace();
    if (more) extra->insert(extra->end(), more->begin(), more->end());
    LOCKSTEP_TRY(Extra older_more, read_extra(map, "additional_special_tokens", named));
    if (older_more) older_extra = std::move(older_more);
    LOCKSTEP_TRY(const Document older, read_document(directory / "added_tokens.json"));
    LOCKSTEP_TRY(settings.older, older_tokens(older.root(), named.found, extra));
  }
  settings.named = std::move(named).in_order();
  if (!extra) extra = std::move(older_extra);
  if (chosen != nullptr && chosen->lists_defaults && !extra) {
    const Document defaults = defaults_of(*chosen);
    extra.emplace();
    for (const SpecialToken& special : settings.named) {
      if (!is_usual(special.name) && defaults.root().find(special.name)) extra->push_back(special.token);
    }
  }
  if (extra) settings.extra = *std::move(extra);
  return settings;
}

}  // namespace lockstep::text
