#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "quarry/command_line/command_line.h"
#include "server/grpc/listener.h"

namespace quarry::server {

/// The options of quarry-server, as the user wrote them.
struct Options {
  std::string root;  ///< a directory or a URL, which may hold a signature: never shown
  bool allow_http = false;
  std::string cache;       ///< empty: none
  std::string cache_size;  ///< empty: the default
  std::string memory = "2GiB";
  std::string index;
  std::string scratch;
  std::string follow_symlinks = "owner";
  int threads = 0;  ///< 0: UsableProcessors
  double watch_seconds = 1;

  ListenOptions listen;
  std::string http;  ///< empty: no HTTP port
  std::string page;
  std::vector<std::string> cors;
  std::vector<std::string> connect;
  TlsFiles tls;
  std::string tokens;
  std::string metrics;

  int connections = 0;  ///< limit of each port; 0: by the system's limit of open files
  double deadline_seconds = 3600;
  double stall_seconds = 60;
  std::string max_request_bytes;
  std::size_t queue = 256;
  int calls = 1000;
  int client_calls = 0;
  double client_rate = 1000;
  std::string client_bytes;
  int drain_seconds = 30;

  std::string log_level = "info";
  std::string log_format = "text";
  bool quiet = false;
};

/// Declares all of them. --help-limits shows the limits, whose defaults suit most servers.
void DeclareOptions(command_line::Parser* app, Options* options);

}  // namespace quarry::server
