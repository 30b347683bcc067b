// quarry-plan: traffic and time of a run of the writer, without running it.
#include <utility>
#include <vector>

#include "tools/plan/command.h"

int main(int argc, char** argv) {
  using namespace quarry::plan;
  using quarry::command_line::Parser;
  Parser app("quarry-plan", "Plans runs of the Quarry writer for any number of ranks, without MPI.");
  app.SetFooter(
      "Example:\n"
      "  quarry-plan placement --dims 1600x1600x1600 --ranks 16x16x16 --patch 64\n"
      "Exit codes: 0 done, 2 bad usage, 3 not found, 4 damaged data, 6 out of space or other I/O error.");

  std::vector<std::pair<const Parser*, Command>> commands;
  const auto add = [&](const char* name, const char* description, Command (*declare)(Parser*)) {
    Parser* command = app.AddCommand(name, description);
    commands.emplace_back(command, declare(command));
  };
  add("placement", "patches per rank, and traffic of the exchange", DeclarePlacement);
  add("predict", "seconds of each phase of a step; tables over patch, files and ranks", DeclarePredict);
  add("calibrate", "measures this machine for predict", DeclareCalibrate);

  return RunProgram(
      &app, argc, argv,
      [&]() -> quarry::Result<int> {
        for (const auto& [command, run] : commands) {
          if (command->chosen()) QUARRY_RETURN_IF_ERROR(run());
        }
        return 0;
      },
      "use larger patches or fewer ranks");
}
