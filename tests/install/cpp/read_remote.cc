// Reads a dataset from a server.
#include <quarry/client_grpc.h>

#include "expected.h"

int main(int, char** argv) {
  quarry::client::EnableGrpc();
  auto dataset = quarry::client::Dataset::Open(argv[1]);
  if (!dataset.ok()) {
    std::fprintf(stderr, "%s\n", dataset.status().message().c_str());
    return 1;
  }
  return CheckHeights(**dataset);
}
