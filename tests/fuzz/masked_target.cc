// Hostile masks and missing values around a coder that accepts any payload.

#include <algorithm>

#include "quarry/geometry/patch_grid.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/masked_coder.h"
#include "tests/fuzz/payload_input.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  static const fuzz::BlankCoder coder;
  static const std::vector<DataType> types = fuzz::SupportedTypes(coder);
  const fuzz::PayloadInput input = fuzz::ReadInput(std::as_bytes(std::span(data, size)), types);
  const std::vector<Bytes> levels = fuzz::DecodeInput(coder, input);

  // A sample missing at a level is missing with the same bits at the next finer one.
  const std::size_t sample = SizeOf(input.layout.type);
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    const int level = input.layout.levels - 1 - static_cast<int>(i);
    const Index3 coarse = LevelShape(input.layout.shape, level);
    const Index3 fine = LevelShape(input.layout.shape, level - 1);
    const std::byte* from = levels[i].data();
    for (std::int64_t z = 0; z < coarse[2]; ++z) {
      for (std::int64_t y = 0; y < coarse[1]; ++y) {
        for (std::int64_t x = 0; x < coarse[0]; ++x, from += sample) {
          const auto to = static_cast<std::size_t>(2 * x + fine[0] * (2 * y + fine[1] * (2 * z)));
          fuzz::Require(std::equal(from, from + sample, levels[i + 1].data() + to * sample),
                        "a sample is the same at every level");
        }
      }
    }
  }
  return 0;
}
