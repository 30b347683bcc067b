// quarry: looks into datasets, in a directory or behind a server.
#include <cstdlib>

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

  app.AddCommand("ls", "lists datasets", DeclareLs);
  app.AddCommand("info", "grid, fields, steps, sizes and errors of a dataset", DeclareInfo);
  app.AddCommand("get", "writes a box at a level to a file", DeclareGet);
  app.AddCommand("plan", "prints the cost of a get", DeclarePlan);
  app.AddCommand("stats", "statistics of a box, with proved intervals for the original", DeclareStats);
  app.AddCommand("points", "values at points between samples", DeclarePoints);
  app.AddCommand("watch", "follows a running simulation: one line per published step", DeclareWatch);
  app.AddCommand("verify", "compares checksums, or samples with their source", DeclareVerify);
  app.AddCommand("upgrade", "brings the metadata of a dataset up to date", DeclareUpgrade);
  app.AddCommand("pack", "moves small steps into few files", DeclarePack);
  app.AddCommand("cp", "copies a dataset, or some of its steps and fields", DeclareCp);
  app.AddCommand("cache", "what a cache on disk holds", DeclareCache);

  return RunProgram(
      &app, argc, argv, [&] { return app.RunChosen(); }, "ask for a smaller box or a coarser level");
}
