// quarry-reproduce: models and studies of the papers, for benchmarks/reproduce.py.

#include "benchmarks/reproduction/model/command.h"
#include "writer/pipeline/run_on_ranks.h"

int main(int argc, char** argv) {
  using namespace quarry::reproduction;
  using quarry::command_line::Parser;
  Parser app("quarry-reproduce", "Models and studies of the papers that Quarry is built from.");
  app.SetFooter(
      "Example:\n"
      "  quarry-reproduce fft --predictions\n"
      "  mpirun -n 8 quarry-reproduce exchange --dims 256x256x256\n"
      "benchmarks/reproduction/README.md explains them.\n"
      "Exit codes: 0 done, 2 bad usage, 3 not found, 6 out of space or other I/O error.");

  app.AddCommand("fft", "seconds of a distributed 3D Fourier transform, and the paper's predictions",
                 DeclareFft);
  app.AddCommand("stack", "rounds and messages to redistribute a stack of images to boxes", DeclareStack);
  app.AddCommand("placement", "time of exchange and encoding in both placements, beside the model's",
                 DeclarePlacement);
  app.AddCommand(
      "exchange",
      "time of the exchange between ranks: placements, messages per patch, per --batch parts and per rank, "
      "and buffers packed by hand",
      DeclareExchange);
  const auto run = [&app] { return app.RunChosen(); };
  // The models need no MPI, and start faster without.
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "placement" || command == "exchange")
    return quarry::writer::RunOnRanks(&app, argc, argv, run, "give smaller --dims, or use more nodes");
  return RunProgram(&app, argc, argv, run, "give smaller --dims, or fewer --ranks");
}
