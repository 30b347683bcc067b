// quarry-plan: what a run of the writer will move and cost, without running it.
#include <map>

#include "quarry/base/version.h"
#include "tools/plan/command.h"

int main(int argc, char** argv) {
  using namespace quarry::plan;
  CLI::App app("Plans runs of the Quarry writer for any number of ranks, without MPI.", "quarry-plan");
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("quarry-plan ") + quarry::kVersion);
  app.footer(
      "Example:\n"
      "  quarry-plan placement --dims 1600x1600x1600 --ranks 16x16x16 --patch 64\n"
      "Exit codes: 0 done, 2 bad usage, 3 not found, 4 damaged data, 6 out of space or other I/O error.");

  std::map<CLI::App*, Command> commands;
  const auto add = [&](const char* name, const char* description, Command (*declare)(CLI::App*)) {
    CLI::App* command = app.add_subcommand(name, description);
    commands[command] = declare(command);
  };
  add("placement", "which rank encodes how many patches, and what moves", DeclarePlacement);
  add("stack", "rounds and messages to bring a stack of images into boxes", DeclareStack);
  add("predict", "seconds of each phase of a step; tables and charts over patch, files and ranks",
      DeclarePredict);
  add("calibrate", "measures this machine for predict", DeclareCalibrate);

  quarry::Status status;
  try {
    app.parse(argc, argv);
    status = commands.at(app.get_subcommands().front())();
    if (status.ok()) return 0;
  } catch (const CLI::Success& success) {  // --help, --version
    return app.exit(success);
  } catch (const CLI::ParseError& error) {
    status = quarry::InvalidArgument("{}; run quarry-plan --help", error.what());
  } catch (const std::bad_alloc&) {
    status = quarry::InternalError("out of memory; use larger patches or fewer ranks");
  } catch (const std::exception& error) {
    status = quarry::InternalError("unexpected: {}", error.what());
  }
  fmt::print(stderr, "quarry-plan: {}\n", status.message());
  return quarry::ExitCode(status);
}
