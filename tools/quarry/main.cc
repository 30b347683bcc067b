// quarry: looks into datasets, in a directory or behind a server.
#include <cstdlib>
#include <map>

#include "quarry/base/memory.h"
#include "quarry/base/version.h"
#include "tools/quarry/command.h"

int main(int argc, char** argv) {
  using namespace quarry::tools;
  quarry::KeepFreedMemory();
  // One line for an error, ours: gRPC's own log is for whoever asks for it.
  ::setenv("GRPC_VERBOSITY", "NONE", 0);
  CLI::App app("Looks into Quarry datasets, in a directory or behind a server.", "quarry");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("quarry ") + quarry::kVersion);
  app.footer(
      "Example:\n  quarry get run42.quarry --field speed --box 0:64,0:64,0:64 --output box.npy\n"
      "Exit codes: 0 done, 1 a check failed, 2 bad usage, 3 not found, 4 damaged data, 5 cannot reach or "
      "refused, 6 I/O error.");

  std::map<CLI::App*, Command> commands;
  const auto add = [&](const char* name, const char* description, Command (*declare)(CLI::App*)) {
    CLI::App* command = app.add_subcommand(name, description);
    commands[command] = declare(command);
  };
  add("ls", "lists datasets", DeclareLs);
  add("info", "grid, fields, steps, sizes and errors of a dataset", DeclareInfo);
  add("get", "writes a box at a level to a file", DeclareGet);
  add("plan", "what a get would cost", DeclarePlan);
  add("stats", "statistics of a box, with what is proved of the original", DeclareStats);
  add("points", "the field at points between samples", DeclarePoints);
  add("watch", "steps of a running simulation, one line for each as it is published", DeclareWatch);
  add("verify", "checks checksums, or samples against their source", DeclareVerify);

  quarry::Status status;
  try {
    app.parse(argc, argv);
    const quarry::Result<int> result = commands.at(app.get_subcommands().front())();
    if (result.ok()) return *result;
    status = result.status();
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    status = quarry::InvalidArgument("{}; run quarry --help", error.what());
  } catch (const std::bad_alloc&) {
    status = quarry::InternalError("out of memory; ask for a smaller box or a coarser level");
  } catch (const std::exception& error) {
    status = quarry::InternalError("unexpected: {}", error.what());
  }
  fmt::print(stderr, "quarry: {}\n", status.message());
  return quarry::ExitCode(status);
}
