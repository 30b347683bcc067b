#include "benchmarks/reproduction/model/fft_model.h"

#include <gtest/gtest.h>

#include <cmath>

namespace quarry::reproduction {
namespace {

/// Round numbers: 16 and 32 bytes/s are one and two words, a cache of 64 words.
FftSystem RoundSystem() {
  FftSystem system;
  system.node = {.flops_per_s = 10,
                 .dram_bandwidth_bytes_per_s = 16,
                 .cache_bytes = 1024,
                 .cores = 4,
                 .bus_bandwidth_bytes_per_s = 32};
  system.network = {model::Topology::kTorus3d, 32, 0};
  system.nodes = 8;
  return system;
}

// n = 8, P = 8: each node has 8^3 / 8 = 64 words, and 3 x 64 / 8 = 24 lines.
//   1  24 lines x 5 x 8 x 3 flops / 10                   = 288 s
//   2  24 lines x A = 2 x 8 words, once / 1              = 384 s    (log_64 8 = 1/2: at least one pass)
//   5  2 x 512 / (8^(2/3) = 4) / 2 words/s               = 128 s
//   8  2 x 2 x 512 / 8 / 1                               = 256 s
//   9  3 phases x 2 x 512 / 8 / 2 words/s                = 192 s
TEST(PredictFft, EqualsTheEquationsOfThePaper) {
  const FftSeconds seconds = PredictFft(RoundSystem(), {8, 8, 8}, 2);
  EXPECT_DOUBLE_EQ(seconds.flops, 288);
  EXPECT_DOUBLE_EQ(seconds.memory, 384);
  EXPECT_DOUBLE_EQ(seconds.network, 128);
  EXPECT_DOUBLE_EQ(seconds.shuffle, 256);
  EXPECT_DOUBLE_EQ(seconds.bus, 192);
  EXPECT_DOUBLE_EQ(seconds.total(), 384 + 128);
  EXPECT_DOUBLE_EQ(seconds.overlapped(), 384);
  EXPECT_DOUBLE_EQ(seconds.with_shuffle_and_bus(), 384 + 128 + 256 + 192);
}

// Lines of 4096 = 64^2 words through a cache of 64: two passes. A third of the lines are long here, so
// 4096 x 8 x 8 / 8 nodes x A = 1 x (2 + 1 + 1) passes.
TEST(PredictFft, LongLinesPassThroughTheCacheTwice) {
  EXPECT_NEAR(PredictFft(RoundSystem(), {4096, 8, 8}, 1).memory, 4096.0 * 8 * 8 / 8 * 4, 1e-6);
}

// A plane has two phases and one exchange; a line on one axis has no exchange.
TEST(PredictFft, AnAxisOfOneSampleHasNoTransform) {
  const FftSeconds plane = PredictFft(RoundSystem(), {64, 8, 1}, 2);
  EXPECT_DOUBLE_EQ(plane.flops, 64 * 5.0 * 9 * 8 / 80);  // 512 samples of log2(64) + log2(8)
  EXPECT_DOUBLE_EQ(plane.memory, 2 * 2 * 64);
  EXPECT_DOUBLE_EQ(plane.network, 64);
  EXPECT_DOUBLE_EQ(plane.shuffle, 128);
  EXPECT_DOUBLE_EQ(plane.bus, 128);
  const FftSeconds line = PredictFft(RoundSystem(), {1, 512, 1}, 2);
  EXPECT_EQ(line.network, 0);
  EXPECT_EQ(line.shuffle, 0);
  EXPECT_EQ(PredictFft(RoundSystem(), {1, 1, 1}, 2).total(), 0);
}

TEST(PredictFft, OneNodeHasNoNetwork) {
  FftSystem system = RoundSystem();
  system.nodes = 1;
  EXPECT_EQ(PredictFft(system, {8, 8, 8}, 2).network, 0);
}

// Equations 6 and 7: at a peak of R, halving the node C and its memory bandwidth alike leaves the memory time
// as it is, and takes (1/2)^e off the network's. 512 nodes of 10 flop/s against 4096 of 5: e = 2/3, 2^(2/3)
// = 1.587.
TEST(PredictFft, ManyWeakNodesCommunicateFaster) {
  FftSystem few = RoundSystem();
  few.nodes = 512;
  FftSystem many = few;
  many.node.flops_per_s /= 8;
  many.node.dram_bandwidth_bytes_per_s /= 8;
  many.nodes *= 8;
  const FftDims dims = {64, 64, 64};
  const FftSeconds slow = PredictFft(few, dims, 2);
  const FftSeconds fast = PredictFft(many, dims, 2);
  EXPECT_DOUBLE_EQ(few.peak_flops_per_s(), many.peak_flops_per_s());
  EXPECT_DOUBLE_EQ(fast.memory, slow.memory);
  EXPECT_NEAR(slow.network / fast.network, 4, 1e-12);  // 8^(2/3)
  // Equation 10: T_mem / T_net grows by (8 nodes)^(1 - e) x 8 for the memory bandwidth, at the same nodes'
  // link.
  EXPECT_NEAR((fast.memory / fast.network) / (slow.memory / slow.network), std::pow(8, -1.0 / 3) * 8, 1e-9);
}

// 512 + 128 s of T_mem = 3072/P and T_net = 512/P^(2/3) are 384 + 128 at P = 8; at 64 nodes 48 + 32.
TEST(NodesFor, FindsTheNodesBack) {
  const FftDims dims = {8, 8, 8};
  const auto nodes = [&](double seconds, bool overlapped) {
    const Result<double> found = NodesFor(RoundSystem(), dims, 2, seconds, overlapped);
    EXPECT_TRUE(found.ok());
    return found.ok() ? *found : 0;
  };
  EXPECT_NEAR(nodes(384 + 128, false), 8, 1e-9);
  EXPECT_NEAR(nodes(48 + 32, false), 64, 1e-9);
  EXPECT_NEAR(nodes(48, true), 64, 1e-9);
  EXPECT_EQ(nodes(1e9, false), 1);
}

TEST(NodesFor, SaysThatLatencyCannotBeBeaten) {
  FftSystem system = RoundSystem();
  system.network.latency_s = 1;  // latency of each of two exchanges
  const Status status = NodesFor(system, {8, 8, 8}, 2, 1.5, false).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "no number of nodes transforms 8x8x8 samples in 1.5 s; allow more time");
}

// 10 flop/s over 16 bytes/s; 64 words for 4 cores are 2^4 each.
TEST(BalanceOf, HasBothSidesOfEquation11) {
  const FftBalance balance = BalanceOf(RoundSystem().node);
  EXPECT_DOUBLE_EQ(balance.flops_per_byte, 0.625);
  EXPECT_DOUBLE_EQ(balance.log2_cache_words_per_core, 4);
}

}  // namespace
}  // namespace quarry::reproduction
