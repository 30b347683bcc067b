// Hostile headers of classic NetCDF files for our own reader; the library's reader is not tested here.

#include "quarry/input/netcdf_classic.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  const fuzz::MemoryFile memory(std::as_bytes(std::span(data, size)));
  const Result<RandomAccessFile> file = RandomAccessFile::Open(memory.path());
  fuzz::Require(file.ok(), "a file in memory can be opened");
  const auto ends = input::internal::ClassicVariableEnds(*file);
  fuzz::Require(ends.ok() || ends.status().code() == StatusCode::kDataLoss,
                "an error of a hostile header is kDataLoss");
  return 0;
}
