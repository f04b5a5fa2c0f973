// Prints where libraries of the launcher above this process may be.
#include <cstdio>

#include "transport/mpi/library_search.h"

int main() {
  for (const auto& folder : lockstep::transport::mpi::launcher_folders()) std::puts(folder.c_str());
}
