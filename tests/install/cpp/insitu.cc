// Every rank owns a part of the z axis of 13x7x6 samples, each x + 100 y + 10000 z: expected.h.
#include <quarry/insitu.h>
#include <quarry/intransit.h>
#include <quarry/redistribute.h>

#include <cstdio>

namespace {

quarry::Status Write(const char* path, int rank, int ranks) {
  quarry::insitu::Setup setup;
  setup.path = path;
  setup.declaration.dims = {13, 7, 6};
  setup.declaration.fields = {
      {.name = "height", .type = quarry::DataType::kFloat64, .lossless = true, .units = "m"}};
  const quarry::Box box{{0, 0, 6 * rank / ranks}, {13, 7, 6 * (rank + 1) / ranks}};
  std::vector<double> samples;
  for (auto z = box.begin[2]; z < box.end[2]; ++z) {
    for (int y = 0; y < 7; ++y) {
      for (int x = 0; x < 13; ++x) samples.push_back(static_cast<double>(x + 100 * y + 10000 * z));
    }
  }
  QUARRY_ASSIGN_OR_RETURN(auto dataset, quarry::insitu::Dataset::Open(
                                            MPI_COMM_WORLD, setup, {quarry::insitu::OwnedBox::Dense(box)}));
  QUARRY_RETURN_IF_ERROR(dataset->BeginStep(0));
  QUARRY_RETURN_IF_ERROR(dataset->Put<double>("height", {samples.data()}));
  QUARRY_RETURN_IF_ERROR(dataset->EndStep());
  return dataset->Close();
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const quarry::Status status = Write(argv[1], rank, ranks);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.message().c_str());
  MPI_Finalize();
  return status.ok() ? 0 : 1;
}
