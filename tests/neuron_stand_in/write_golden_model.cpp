// write_golden_model GOLDENS NAME DIR: the tiny model of a golden as a Hugging Face directory, for tests in Python.
#include <fmt/format.h>

#include "tests/model/golden.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: write_golden_model GOLDENS NAME DIR\n");
    return 2;
  }
  const auto golden = lockstep::model::read_golden(argv[1], argv[2]);
  lockstep::model::write_hashed_model(argv[3], golden.config, golden.tensors, golden.seed, {});
  return 0;
}
