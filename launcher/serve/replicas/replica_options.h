// How the ranks of a model are started and kept: one or more replicas, each a group of ranks with its own engine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "launcher/serve/replicas/crew.h"

namespace lockstep::serve {

struct ReplicaOptions {
  int replicas = 1;                                // groups that share the requests
  int ranks = 0;                                   // of each; 0: as many as another launcher has started
  std::vector<std::vector<int>> hardware_threads;  // of each replica that runs on this machine; empty: all

  std::string on_lost_rank = "same";  // "same", "shrink": the ranks start again, and open requests go on; "stop"
  int max_restarts = 5;               // in a row without a token
  double start_deadline_s = 600.0;    // until an engine serves
  double silence_s = 8.0;             // without an answer, until an engine is lost

  std::vector<std::string> launcher;  // starts a group's ranks (launcher_words.h); empty: they start each other
  std::vector<std::string> engine;    // an engine's command, without its socket and --tp; empty: attach to one
  std::string records;                // --exit-record of the user; empty: none

  std::string engine_socket;  // of an engine that runs already
  std::string engine_host;
  int engine_port = 0;
  std::string secret_file;
};

/// The command of an engine, without its socket. Pure.
std::vector<std::string> engine_command(const ReplicaOptions& options, const Crew& crew);

/// Ranks among `ranks` that the command starts on this machine; 0: a launcher starts them. Pure.
int own_ranks(const ReplicaOptions& options, int ranks);

/// The folder for the exit records of one replica's ranks; empty: none is wanted. Pure.
std::filesystem::path records_of(const ReplicaOptions& options, size_t replica);

}  // namespace lockstep::serve
