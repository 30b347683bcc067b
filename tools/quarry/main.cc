// quarry: looks into datasets, in a directory or behind a server.
#include <cstdlib>
#include <vector>

#include "quarry/base/memory.h"
#include "quarry/client_grpc.h"
#include "tools/quarry/command.h"

int main(int argc, char** argv) {
  using namespace quarry::tools;
  using quarry::command_line::Parser;
  quarry::KeepFreedMemory();
  // An error is one line, ours: gRPC's own log appears only on request.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  quarry::client::EnableGrpc();
  Parser app("quarry", "Reads Quarry datasets, in a directory or behind a server.");
  app.SetFooter(
      "Example:\n  quarry get run42.quarry --field speed --box 0:64,0:64,0:64 --output box.npy\n"
      "Exit codes: 0 done, 1 a check failed, 2 bad usage, 3 not found, 4 damaged data, 5 cannot reach or "
      "refused, 6 I/O error.");

  std::vector<std::pair<const Parser*, Command>> commands;
  const auto add = [&](const char* name, const char* description, Command (*declare)(Parser*)) {
    Parser* command = app.AddCommand(name, description);
    commands.emplace_back(command, declare(command));
  };
  add("ls", "lists datasets", DeclareLs);
  add("info", "grid, fields, steps, sizes and errors of a dataset", DeclareInfo);
  add("get", "writes a box at a level to a file", DeclareGet);
  add("plan", "prints the cost of a get", DeclarePlan);
  add("stats", "statistics of a box, with proved intervals for the original", DeclareStats);
  add("points", "values at points between samples", DeclarePoints);
  add("watch", "follows a running simulation: one line per published step", DeclareWatch);
  add("verify", "compares checksums, or samples with their source", DeclareVerify);

  return RunProgram(
      &app, argc, argv,
      [&]() -> quarry::Result<int> {
        for (const auto& [command, run] : commands) {
          if (command->chosen()) return run();
        }
        return quarry::InvalidArgument("give a command; run quarry --help");
      },
      "ask for a smaller box or a coarser level");
}
