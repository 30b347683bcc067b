// Hostile files for --config.

#include <array>

#include "quarry/command_line/command_line.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  const fuzz::MemoryFile file(std::as_bytes(std::span(data, size)));
  std::string root;
  std::string memory;
  int calls = 0;
  bool quiet = false;
  command_line::Parser parser("fuzz", "Options of every kind.");
  parser.AddOption("--root", &root, "a path");
  parser.AddOption("--memory", &memory, "a size");
  parser.AddOption("--calls", &calls, "a number").Between(1, 1'000'000);
  parser.AddFlag("--quiet", &quiet, "a flag");
  parser.AddConfigFile("--config", "the file");
  const std::string path = file.path();
  const std::array arguments{"fuzz", "--config", path.c_str()};
  const auto parsed = parser.Parse(static_cast<int>(arguments.size()), arguments.data());
  if (!parsed.ok()) {
    fuzz::Require(!parsed.status().message().empty(), "an error says what is wrong");
  } else {
    fuzz::Require(calls == 0 || (calls >= 1 && calls <= 1'000'000), "a number is in its range");
  }
  return 0;
}
