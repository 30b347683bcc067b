// Reads a dataset in a directory.
#include "expected.h"

int main(int, char** argv) {
  auto dataset = quarry::client::Dataset::Open(argv[1]);
  if (!dataset.ok()) {
    std::fprintf(stderr, "%s\n", dataset.status().message().c_str());
    return 1;
  }
  return CheckHeights(**dataset);
}
