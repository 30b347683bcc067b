#include "writer/model/file_system.h"

#include <gtest/gtest.h>

namespace quarry::model {
namespace {

Machine DiskOf(double targets, double target_bandwidth) {
  Machine machine;
  machine.file_create_s = 0;
  machine.storage_targets = targets;
  machine.target_write_bandwidth_bytes_per_s = target_bandwidth;
  return machine;
}

TEST(LargestOfNormals, IsBlomsFormula) {
  EXPECT_EQ(LargestOfNormals(1), 0);
  // (2 - 0.375) / 2.25 = 0.7222, whose quantile is 0.5895; the exact expectation is 1 / sqrt(pi) = 0.5642.
  EXPECT_NEAR(LargestOfNormals(2), 0.5895, 1e-4);
  // 55.625 / 56.25 = 0.98889: 2.287.
  EXPECT_NEAR(LargestOfNormals(56), 2.287, 1e-3);
}

TEST(SecondsOfFiles, OneTargetTakesAllBytes) {
  const WriteSeconds seconds = SecondsOfFiles(DiskOf(1, 100), {{300, 200}, {0, 1}}, 2);

  EXPECT_DOUBLE_EQ(seconds.shared, 5);
  EXPECT_EQ(seconds.creates, 0);
  EXPECT_EQ(seconds.stream, 0);
}

TEST(SecondsOfFiles, FilesFallOnTargetsByChance) {
  // Mean 400 / 2; squares 4 * 100^2 over 2 targets: 141.4; 0.5895 of these more: 283.4 bytes.
  EXPECT_NEAR(SecondsOfFiles(DiskOf(2, 1), {{100, 100, 100, 100}, {0, 1, 2, 3}}, 4).shared, 283.4, 0.05);
  // A file is on one target, however few others there are: 100 + 0.5895 sqrt(200^2 / 2) = 183.4 are less.
  EXPECT_DOUBLE_EQ(SecondsOfFiles(DiskOf(2, 1), {{200}, {0}}, 4).shared, 200);
}

TEST(SecondsOfFiles, ABusyNodeMayTakeLongerThanTheTargets) {
  Machine machine = DiskOf(1, 1000);
  machine.node_write_bandwidth_bytes_per_s = 10;
  // Ranks 0 and 1 share a node: 300 bytes.
  EXPECT_DOUBLE_EQ(SecondsOfFiles(machine, {{100, 200, 250}, {0, 1, 2}}, 2).shared, 30);
}

TEST(SecondsOfFiles, TheBusiestWriterStreamsAfterwards) {
  Machine machine = DiskOf(1, 1000);
  machine.stream_write_bandwidth_bytes_per_s = 10;
  EXPECT_DOUBLE_EQ(SecondsOfFiles(machine, {{100, 200, 250}, {0, 0, 2}}, 2).stream, 30);
}

TEST(SecondsOfFiles, NamesCostTheirWriterAndAll) {
  Machine machine = DiskOf(1, 1e9);
  machine.file_create_s = 2;
  machine.file_creates_per_s = 4;
  // 3 files at 4 a second; rank 0 makes two of them.
  EXPECT_DOUBLE_EQ(SecondsOfFiles(machine, {{0, 0, 0}, {0, 0, 1}}, 2).creates, 0.75 + 4);
}

TEST(SecondsOfSharedFile, OneWriterForEachTargetButAtMostOneANode) {
  Machine machine = DiskOf(4, 100);
  EXPECT_DOUBLE_EQ(SecondsOfSharedFile(machine, 1200, 8).shared, 3);
  EXPECT_DOUBLE_EQ(SecondsOfSharedFile(machine, 1200, 2).shared, 6);
  machine.stream_write_bandwidth_bytes_per_s = 50;
  EXPECT_DOUBLE_EQ(SecondsOfSharedFile(machine, 1200, 8).shared, 6);
}

TEST(BestFiles, IsWhereNamesCostWhatStreamsSave) {
  // Fan et al., figures 7 and 8 with the constants of theta.json: 3,750 files for turbulence, 540 for S3D.
  Machine machine;
  machine.file_creates_per_s = 47'400;
  machine.stream_write_bandwidth_bytes_per_s = 0.164 * (1 << 30);
  machine.part_s = 290e-6;
  EXPECT_NEAR(BestFiles(machine, 38'989'451'056, 262'144), 3750, 40);
  EXPECT_NEAR(BestFiles(machine, 786'616'672, 5'600), 540, 10);
  machine.file_creates_per_s = 0;
  EXPECT_EQ(BestFiles(machine, 1 << 30, 1000), 0);
}

}  // namespace
}  // namespace quarry::model
