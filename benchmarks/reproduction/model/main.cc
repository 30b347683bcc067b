// quarry-reproduce: models and studies of the papers, for benchmarks/reproduce.py.
#include <utility>
#include <vector>

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

  std::vector<std::pair<const Parser*, Command>> commands;
  const auto add = [&](const char* name, const char* description, Command (*declare)(Parser*)) {
    Parser* command = app.AddCommand(name, description);
    commands.emplace_back(command, declare(command));
  };
  add("fft", "seconds of a distributed 3D Fourier transform, and the paper's predictions", DeclareFft);
  add("stack", "rounds and messages to redistribute a stack of images to boxes", DeclareStack);
  add("placement", "time of exchange and encoding in both placements, beside the model's", DeclarePlacement);
  add("exchange",
      "time of the exchange between ranks: placements, messages per patch, per --batch parts and per rank, "
      "and buffers packed by hand",
      DeclareExchange);
  const auto run = [&commands]() -> quarry::Result<int> {
    for (const auto& [command, start] : commands) {
      if (command->chosen()) QUARRY_RETURN_IF_ERROR(start());
    }
    return 0;
  };
  // The models need no MPI, and start faster without.
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "placement" || command == "exchange")
    return quarry::writer::RunOnRanks(&app, argc, argv, run, "give smaller --dims, or use more nodes");
  return RunProgram(&app, argc, argv, run, "give smaller --dims, or fewer --ranks");
}
