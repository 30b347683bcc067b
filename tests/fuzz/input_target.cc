// Hostile files of a format that quarry-write reads, QUARRY_FUZZ_FORMAT, and of its relatives: .npz beside
// .npy, .vtk beside VTK's XML formats.

#include "quarry/input/input.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  const fuzz::MemoryFile file(std::as_bytes(std::span(data, size)));
  input::InputOptions options;
  options.format = QUARRY_FUZZ_FORMAT;
  const std::string_view start(reinterpret_cast<const char*>(data), std::min<std::size_t>(size, 5));
  if (options.format == "npy" && start.starts_with("PK")) options.format = "npz";
  if (options.format == "vti" && start == "# vtk") options.format = "vtk";
  const auto inputs = input::OpenInputs(file.path(), options);
  if (!inputs.ok()) return 0;
  for (const auto& input : *inputs) {
    const Index3& dims = input->info().dims;
    fuzz::Require(dims[0] >= 1 && dims[1] >= 1 && dims[2] >= 1, "what is opened has samples");
    // The caller allocates the memory for the samples.
    constexpr std::int64_t kMostSamples = 1 << 20;
    Box box{{0, 0, 0}, dims};
    for (std::size_t a = 0; a < 3; ++a) box.end[a] = std::min<std::int64_t>(dims[a], 100);
    const Result<Bytes> part = input::ReadBox(*input, box);
    fuzz::Require(part.ok() || !part.status().message().empty(), "an error says what is wrong");
    if (dims[0] > kMostSamples || dims[1] > kMostSamples || dims[2] > kMostSamples ||
        dims[0] * dims[1] > kMostSamples || dims[0] * dims[1] * dims[2] > kMostSamples)
      continue;
    const Result<Bytes> whole = input::ReadBox(*input, {{0, 0, 0}, dims});
    // A part of a readable box is readable.
    if (whole.ok()) fuzz::Require(part.ok(), "a part of samples that are there");
  }
  return 0;
}
