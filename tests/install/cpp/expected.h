#pragma once

#include <quarry/client.h>

#include <cstdio>

/// The field of the writers of this folder: 13x7x6 samples, each x + 100 y + 10000 z.
inline int CheckHeights(const quarry::client::Dataset& dataset) {
  auto answer = dataset.Read({.field = "height", .box = quarry::Box{{1, 2, 3}, {12, 7, 6}}});
  if (!answer.ok()) {
    std::fprintf(stderr, "%s\n", answer.status().message().c_str());
    return 1;
  }
  const auto samples = answer->SamplesAs<double>();
  std::size_t n = 0;
  for (int z = 3; z < 6; ++z) {
    for (int y = 2; y < 7; ++y) {
      for (int x = 1; x < 12; ++x, ++n) {
        if (n < samples.size() && samples[n] == x + 100 * y + 10000 * z) continue;
        std::fprintf(stderr, "sample %d,%d,%d is wrong\n", x, y, z);
        return 1;
      }
    }
  }
  std::printf("%zu samples\n", n);
  return 0;
}
