// quarry-plan: traffic and time of a run of the writer, without running it.

#include "tools/plan/command.h"

int main(int argc, char** argv) {
  using namespace quarry::plan;
  using quarry::command_line::Parser;
  Parser app("quarry-plan", "Plans runs of the Quarry writer for any number of ranks, without MPI.");
  app.SetFooter(
      "Example:\n"
      "  quarry-plan placement --dims 1600x1600x1600 --ranks 16x16x16 --patch 64\n"
      "Exit codes: 0 done, 2 bad usage, 3 not found, 4 damaged data, 6 out of space or other I/O error.");

  app.AddCommand("placement", "patches per rank, and traffic of the exchange", DeclarePlacement);
  app.AddCommand("predict", "seconds of each phase of a step; tables over patch, files and ranks",
                 DeclarePredict);
  app.AddCommand("calibrate", "measures this machine for predict", DeclareCalibrate);

  return RunProgram(
      &app, argc, argv, [&] { return app.RunChosen(); }, "use larger patches or fewer ranks");
}
