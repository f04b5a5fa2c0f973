// Runs a fuzz entry point without a fuzzer: every seed of a corpus, then a bounded number of mutations. The mutations
// are the same in every run.
//
//   NAME CORPUS_DIR [ITERATIONS [FIRST_ITERATION]]
//
// A failure prints the iteration; give it as FIRST_ITERATION to repeat it at once. The entry points have the signature
// that libFuzzer expects, so a build with clang can search further.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::string;
using Random = std::mt19937_64;

constexpr size_t kLargestInput = 1 << 16;

std::vector<Input> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Input> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

/// A number below `bound` (at least 1). Not a standard distribution: those differ between libraries.
size_t below(Random& random, size_t bound) { return static_cast<size_t>(random() % bound); }

std::string random_piece(Random& random, const Input& input) {
  static const char* const kPieces[] = {"",
                                        "0",
                                        "-1",
                                        "9223372036854775807",
                                        "18446744073709551616",
                                        "1e999",
                                        "nan",
                                        "[",
                                        "]",
                                        "{",
                                        "}",
                                        "\"",
                                        "\\",
                                        "\\x0",
                                        "\xff",
                                        "\xc3\xa9",
                                        ",",
                                        ":",
                                        "\n",
                                        " ",
                                        "%",
                                        "=",
                                        "null",
                                        "[[[[[[[[",
                                        "{\"a\":",
                                        "false",
                                        "\\u",
                                        "\xed\xa0\x80"};
  if (below(random, 2) == 0) return kPieces[below(random, std::size(kPieces))];
  if (input.empty() || below(random, 3) == 0) return std::string(1, static_cast<char>(random()));
  return input.substr(below(random, input.size()), 1 + below(random, 40));
}

/// One small change: flip a bit, replace, insert, erase or repeat a piece, cut the end, or swap in another seed's part.
void mutate(Input& input, const std::vector<Input>& seeds, Random& random) {
  const size_t at = below(random, input.size() + 1);
  switch (below(random, 6)) {
    case 0:
      if (at < input.size()) input[at] = static_cast<char>(input[at] ^ (1 << below(random, 8)));
      return;
    case 1: input.insert(at, random_piece(random, input)); return;
    case 2: input.replace(at, below(random, 8), random_piece(random, input)); return;
    case 3: input.erase(at, 1 + below(random, 24)); return;
    case 4:
      if (below(random, 4) == 0) input.resize(at);
      return;
    default: {
      const Input& other = seeds[below(random, seeds.size())];
      if (!other.empty()) input.insert(at, other, below(random, other.size()), below(random, 200));
    }
  }
}

Input make_input(const std::vector<Input>& seeds, uint64_t iteration) {
  Random random(iteration);
  Input input = seeds[below(random, seeds.size())];
  for (size_t changes = 1 + below(random, 6); changes > 0; --changes) mutate(input, seeds, random);
  if (input.size() > kLargestInput) input.resize(kLargestInput);
  return input;
}

/// The bytes in a block of exactly their size, so that a sanitizer sees a read past the end.
void run(const Input& input) {
  const std::vector<uint8_t> bytes(input.begin(), input.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s CORPUS_DIR [ITERATIONS [FIRST_ITERATION]]\n", argv[0]);
    return 2;
  }
  std::string current = "seed";
  try {
    const std::vector<Input> seeds = read_corpus(argv[1]);
    if (seeds.empty()) {
      std::fprintf(stderr, "no seeds in %s\n", argv[1]);
      return 2;
    }
    for (size_t i = 0; i < seeds.size(); ++i) {
      current = "seed " + std::to_string(i);
      run(seeds[i]);
    }
    const uint64_t iterations = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10000;
    const uint64_t first = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 0;
    for (uint64_t i = first; i < first + iterations; ++i) {
      current = "iteration " + std::to_string(i);
      run(make_input(seeds, i));
    }
    std::printf("%zu seeds and %llu mutations: nothing found\n", seeds.size(),
                static_cast<unsigned long long>(iterations));
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "%s: %s\n", current.c_str(), failure.what());
    return 1;
  }
  return 0;
}
