#include "quarry/input/input.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace quarry::input {
namespace {

namespace fs = std::filesystem;

class InputTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("quarry-input-test-" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Save(const std::string& name, const Bytes& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return (folder_ / name).string();
  }

  fs::path folder_;
};

/// 0, 1, 2, ... as float32.
Bytes Counting(std::size_t count, bool big_endian = false) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i)
    PutLittleEndian(&bytes, big_endian ? ByteSwapped(static_cast<float>(i)) : static_cast<float>(i));
  return bytes;
}

std::vector<float> Floats(const Bytes& bytes) {
  const auto* begin = reinterpret_cast<const float*>(bytes.data());
  return {begin, begin + bytes.size() / sizeof(float)};
}

/// The only time step of a dump.
std::unique_ptr<Input> OpenOne(const std::string& path, const InputOptions& options) {
  auto inputs = OpenInputs(path, options);
  EXPECT_TRUE(inputs.ok()) << inputs.status().message();
  EXPECT_EQ(inputs->size(), 1u);
  return std::move(inputs->front());
}

TEST_F(InputTest, ReadsDimsTypeAndFieldFromTheName) {
  const auto input = OpenOne(Save("flame-temperature-[4-3-2]-Float32.raw", Counting(24)), {});
  EXPECT_EQ(input->info().field, "temperature");
  EXPECT_EQ(input->info().dims, (Index3{4, 3, 2}));
  EXPECT_EQ(input->info().type, DataType::kFloat32);
}

TEST_F(InputTest, ReadsAnyBoxInXFastestOrder) {
  const auto input =
      OpenOne(Save("a.f32", Counting(24)), {.dims = Index3{4, 3, 2}, .type = DataType::kFloat32});
  // Sample (x, y, z) is x + 4 (y + 3 z).
  EXPECT_EQ(Floats(*ReadBox(*input, {{1, 1, 0}, {3, 3, 2}})),
            (std::vector<float>{5, 6, 9, 10, 17, 18, 21, 22}));
  EXPECT_EQ(Floats(*ReadBox(*input, {{0, 1, 1}, {4, 3, 2}})),
            (std::vector<float>{16, 17, 18, 19, 20, 21, 22, 23}));
  EXPECT_TRUE(ReadBox(*input, {})->empty());
}

TEST_F(InputTest, SwapsBigEndianSamplesAndSkipsTheOffset) {
  Bytes bytes(5, std::byte{0xee});
  for (const std::byte byte : Counting(6, true)) bytes.push_back(byte);
  const auto input =
      OpenOne(Save("a.raw", bytes),
              {.dims = Index3{6, 1, 1}, .type = DataType::kFloat32, .big_endian = true, .offset = 5});
  EXPECT_EQ(Floats(*ReadBox(*input, {{0, 0, 0}, {6, 1, 1}})), (std::vector<float>{0, 1, 2, 3, 4, 5}));
}

TEST_F(InputTest, RefusesASizeThatDoesNotFitWithBothNumbers) {
  const Status status =
      OpenInputs(Save("a.raw", Counting(24)), {.dims = Index3{4, 3, 3}, .type = DataType::kFloat32}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("96"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("144"), std::string::npos) << status.message();
}

Bytes Npy(const std::string& dictionary, const Bytes& samples) {
  std::string header = dictionary;
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  Bytes bytes;
  for (const char c : std::string("\x93NUMPY\x01")) bytes.push_back(static_cast<std::byte>(c));
  bytes.push_back(std::byte{0});
  PutLittleEndian(&bytes, static_cast<std::uint16_t>(header.size()));
  for (const char c : header) bytes.push_back(static_cast<std::byte>(c));
  bytes.insert(bytes.end(), samples.begin(), samples.end());
  return bytes;
}

TEST_F(InputTest, ReadsNpyWithZyxShape) {
  const auto input =
      OpenOne(Save("density.npy",
                   Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 4), }", Counting(24))),
              {});
  EXPECT_EQ(input->info().field, "density");
  EXPECT_EQ(input->info().dims, (Index3{4, 3, 2}));
  EXPECT_EQ(Floats(*ReadBox(*input, {{1, 0, 1}, {2, 1, 2}})), (std::vector<float>{13}));
}

TEST_F(InputTest, ReadsNpyInFortranOrder) {
  const auto input = OpenOne(
      Save("f.npy", Npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3, 4), }", Counting(24))), {});
  EXPECT_EQ(input->info().dims, (Index3{4, 3, 2}));
  // Sample (x, y, z) is z + 2 (y + 3 x).
  EXPECT_EQ(Floats(*ReadBox(*input, {{1, 1, 0}, {3, 3, 2}})),
            (std::vector<float>{8, 14, 10, 16, 9, 15, 11, 17}));
  EXPECT_EQ(Floats(*ReadBox(*input, {{3, 2, 1}, {4, 3, 2}})), (std::vector<float>{23}));
}

TEST_F(InputTest, ASampleBehindTheLastNeedsAnOffset) {
  const std::string path = Save("two.raw", Counting(30));
  InputOptions options{.dims = Index3{4, 3, 2}, .type = DataType::kFloat32};
  const Status refused = OpenInputs(path, options).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("--offset"), std::string::npos) << refused.message();

  options.offset = 8;
  const auto input = OpenOne(path, options);

  EXPECT_EQ(Floats(*ReadBox(*input, {{0, 0, 0}, {2, 1, 1}})), (std::vector<float>{2, 3}));
  ASSERT_EQ(input->info().warnings.size(), 1u);
  EXPECT_NE(input->info().warnings[0].find("16 bytes behind"), std::string::npos)
      << input->info().warnings[0];
}

TEST_F(InputTest, ANameMayHaveColons) {
  const std::string path =
      Save("out_12:00:00.npy", Npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", Counting(2)));
  // A file that is only the first part of the name.
  Save("out_12", Counting(1));
  EXPECT_EQ(OpenOne(path, {})->info().dims, (Index3{2, 1, 1}));
  EXPECT_NE(OpenInputs(path + ":T", {}).status().message().find("holds one field without a name"),
            std::string::npos);
}

TEST_F(InputTest, RefusesNpyThatItWouldReadWrongly) {
  const auto code = [&](const char* dictionary) {
    return OpenInputs(Save("a.npy", Npy(dictionary, Counting(24))), {}).status().code();
  };
  EXPECT_EQ(code("{'descr': '<U8', 'fortran_order': False, 'shape': (2, 3, 2), }"),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 2, 2), }"),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 5), }"),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code("nonsense"), StatusCode::kInvalidArgument);
}

TEST(FindHelpers, NamesWhatDescribesOtherVariables) {
  const std::vector<VariableWords> variables = {
      {"tos", {"time", "lat", "lon"}, {{"coordinates", "depth"}, {"grid_mapping", "crs: lat lon"}}},
      {"lat", {"lat"}, {{"bounds", "lat_bnds"}}},
      {"lat_bnds", {"lat", "bnds"}, {}},
      {"depth", {}, {}},
      {"crs", {}, {}},
      {"mercator", {}, {{"grid_mapping_name", "mercator"}}},
      {"mesh", {}, {{"cf_role", "mesh_topology"}}},
      {"TLAT", {"y", "x"}, {{"standard_name", "latitude"}}},
      {"ice", {"time", "lat", "lon"}, {}}};

  EXPECT_EQ(FindHelpers(variables),
            (std::vector<bool>{false, true, true, true, true, true, true, true, false}));
}

TEST_F(InputTest, MissingFilesAreNotFound) {
  EXPECT_EQ(OpenInputs((folder_ / "none.raw").string(), {}).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quarry::input
