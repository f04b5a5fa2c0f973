// Prints the possible library folders of this process's launcher.
#include <cstdio>

#include "transport/mpi/library_search.h"

int main() {
  for (const auto& folder : lockstep::transport::mpi::launcher_folders()) std::puts(folder.c_str());
}
