// A program with its own MPI; a group for each half of its ranks: mpirun -n 4 02_mpi MODEL
#include <lockstep/engine.h>
#include <mpi.h>

#include <cstdio>

using namespace lockstep;

Result<void> run(const char* directory, MPI_Comm half) {
  LOCKSTEP_TRY(const auto group, Group::mpi(MpiHandle{MPI_Comm_c2f(half)}));
  LOCKSTEP_TRY(const Model model, Model::open(directory));
  LOCKSTEP_TRY(const auto engine, Engine::open(*group, model));
  if (!group->leads()) return engine->serve();
  LOCKSTEP_TRY(const Answer answer, engine->generate("Once upon a time", {{"max_new_tokens", "24"}}));
  std::puts(answer.text.c_str());
  return engine->close();
}

int main(int argc, char** argv) {
  int level = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  const bool is_well = run(argv[1], half).has_value();
  MPI_Comm_free(&half);
  return MPI_Finalize() == MPI_SUCCESS && is_well ? 0 : 1;
}
