#pragma once

#include <filesystem>
#include <random>
#include <vector>

#include "quarry/dataset/dataset.h"
#include "tests/testing/temporary_folder.h"

/// Small datasets for tests of all readers.
namespace quarry::testing {

struct DatasetRecipe {
  Index3 dims = {37, 22, 13};
  Index3 patch = {8, 8, 8};
  int levels = 4;
  format::PayloadOrder order = format::PayloadOrder::kPatch;
  std::size_t files = 3;
  double tolerance = 1e-3;
  std::vector<std::uint64_t> steps = {0};
  std::string field = "pressure";
  CoderId coder = CoderId::kWaveletZfp;
  bool lossless = false;
  bool missing = false;                 ///< with the holes of MakeSamples
  std::vector<double> rougher;          ///< tolerances of the layers before that of `tolerance`
  TimeUnit time_unit;                   ///< with a unit, the time of step n is n / 2
  int block_bits = format::kBlockBits;  ///< base-2 logarithm of the rows of a block of the tables
};

/// Samples of a step: smooth with some noise; the same for the same arguments.
/// @param missing  NaN in a box that holds whole patches and parts of others, and infinity here and there
std::vector<float> MakeSamples(const Index3& dims, std::uint64_t step, bool missing = false);

/// Writes a dataset, or adds steps to an existing one, with the writer's own publisher and subfile writer.
/// Failures end the test program: the tests are about reading.
void MakeDataset(const std::filesystem::path& path, const DatasetRecipe& recipe);

/// The rows of a subfile of the first field in step 0.
format::PatchRows AllRows(const Dataset& dataset, std::size_t subfile);

/// A random box inside the grid, with at least one sample.
Box RandomBox(const Index3& dims, std::mt19937* random);

/// All samples of a level through Dataset and ExecuteRead.
Result<std::vector<float>> TryReadAll(const Dataset& dataset, const query::ReadRequest& request,
                                      const query::PatchLocator* locator = nullptr);
/// TryReadAll for reads that cannot fail.
std::vector<float> ReadAll(const Dataset& dataset, const query::ReadRequest& request,
                           const query::PatchLocator* locator = nullptr);

}  // namespace quarry::testing
