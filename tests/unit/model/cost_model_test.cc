#include "writer/model/cost_model.h"

#include <gtest/gtest.h>

#include "writer/distribution/decomposition.h"

namespace quarry::model {
namespace {

using distribution::FindSharers;
using distribution::OneBoxEach;
using distribution::Ownership;
using distribution::Placement;
using distribution::ProcessGridBoxes;

/// A machine where nothing costs anything, so that a test sets only its own subject.
Machine FreeMachine() {
  Machine machine;
  for (const MachineConstant& constant : MachineConstants())
    machine.*constant.value = constant.zero_allowed ? 0 : 1e300;
  machine.cores_per_node = 2;
  machine.cores_per_rank = 1;
  machine.compression_ratio = 4;
  return machine;
}

Workload MakeWorkload(const Index3& dims, const Index3& patch, const Index3& process_grid) {
  Workload workload{.grid = *PatchGrid::Create(dims, patch),
                    .owned = OneBoxEach(ProcessGridBoxes(dims, process_grid)),
                    .patch_weights = {}};
  workload.sample_bytes = 4;
  workload.from_file = false;
  return workload;
}

// 12 samples in patches of 4 on 2 ranks of 6: patch 0 on rank 0, patch 2 on rank 1, 2 samples each of
// patch 1.
TEST(ExchangeTraffic, CountsPartsThatMove) {
  const PatchGrid grid = *PatchGrid::Create({12, 1, 1}, {4, 1, 1});
  const Ownership owned = OneBoxEach(ProcessGridBoxes({12, 1, 1}, {2, 1, 1}));

  const Traffic traffic = ExchangeTraffic(grid, owned, FindSharers(grid, owned), Placement{0, 0, 1}, 8, 1);

  EXPECT_EQ(traffic.bytes_moved, 16u);
  EXPECT_EQ(traffic.messages, 1u);
  EXPECT_EQ(traffic.rank_pairs, 1u);
  EXPECT_EQ(traffic.ranks[0].kept_bytes, 48u);
  EXPECT_EQ(traffic.ranks[0].received_bytes, 16u);
  EXPECT_EQ(traffic.ranks[0].received_off_node_bytes, 16u);
  EXPECT_EQ(traffic.ranks[0].messages, 1u);
  EXPECT_EQ(traffic.ranks[1].kept_bytes, 32u);
  EXPECT_EQ(traffic.ranks[1].sent_bytes, 16u);
  EXPECT_EQ(traffic.ranks[1].sent_off_node_bytes, 16u);
}

TEST(ExchangeTraffic, KnowsWhoSharesANode) {
  const PatchGrid grid = *PatchGrid::Create({16, 1, 1}, {4, 1, 1});
  const Ownership owned = OneBoxEach(ProcessGridBoxes({16, 1, 1}, {4, 1, 1}));
  // Every patch goes to the next rank; from rank 1 to 2 and from 3 to 0 this is another node.
  const Placement placement = {1, 2, 3, 0};

  const Traffic traffic = ExchangeTraffic(grid, owned, FindSharers(grid, owned), placement, 1, 2);

  EXPECT_EQ(traffic.messages, 4u);
  EXPECT_EQ(traffic.ranks[0].sent_off_node_bytes, 0u);
  EXPECT_EQ(traffic.ranks[1].sent_off_node_bytes, 4u);
  EXPECT_EQ(traffic.ranks[2].sent_off_node_bytes, 0u);
  EXPECT_EQ(traffic.ranks[3].sent_off_node_bytes, 4u);
}

TEST(ExchangeTraffic, CountsEachPairOfRanksOnce) {
  const PatchGrid grid = *PatchGrid::Create({16, 1, 1}, {2, 1, 1});
  const Ownership owned = OneBoxEach(ProcessGridBoxes({16, 1, 1}, {2, 1, 1}));
  const Placement placement = {1, 1, 1, 1, 0, 1, 1, 1};

  const Traffic traffic = ExchangeTraffic(grid, owned, FindSharers(grid, owned), placement, 1, 0);

  EXPECT_EQ(traffic.messages, 5u);
  EXPECT_EQ(traffic.rank_pairs, 2u);
}

// As before: 4 patches go from rank 0 to rank 1, and one from rank 1 to rank 0.
TEST(ExchangeTraffic, JoinsPartsOfAPairOfRanks) {
  const PatchGrid grid = *PatchGrid::Create({16, 1, 1}, {2, 1, 1});
  const Ownership owned = OneBoxEach(ProcessGridBoxes({16, 1, 1}, {2, 1, 1}));
  const Placement placement = {1, 1, 1, 1, 0, 1, 1, 1};
  const auto messages = [&](std::int64_t batch) {
    return ExchangeTraffic(grid, owned, FindSharers(grid, owned), placement, 1, 0, batch);
  };

  EXPECT_EQ(messages(1).messages, 5u);
  EXPECT_EQ(messages(3).messages, 3u) << "3 and 1 of one pair, 1 of the other";
  EXPECT_EQ(messages(4).messages, 2u);
  EXPECT_EQ(messages(0).messages, 2u);
  EXPECT_EQ(messages(3).ranks[0].messages, 3u) << "sent and received";
  EXPECT_EQ(messages(3).bytes_moved, 10u);
}

// Patches of 10, 20, 30, 40 bytes on ranks 0, 0, 1, 1; files of ranks 0 and 1 hold patches 0 to 2, and 3.
TEST(TransferTraffic, CountsPatchesOnTheirWayToTheAggregator) {
  const std::vector<std::int64_t> order = {0, 1, 2, 3};
  const std::vector<std::uint64_t> sizes = {10, 20, 30, 40};

  const Traffic traffic = TransferTraffic(order, sizes, {0, 0, 1, 1}, {0, 3, 4}, 2, 0);

  EXPECT_EQ(traffic.bytes_moved, 30u);
  EXPECT_EQ(traffic.ranks[0].kept_bytes, 30u);
  EXPECT_EQ(traffic.ranks[0].received_bytes, 30u);
  EXPECT_EQ(traffic.ranks[0].received_off_node_bytes, 0u);
  EXPECT_EQ(traffic.ranks[1].kept_bytes, 40u);
}

TEST(CoreSeconds, SharesTheCoresOfANode) {
  Machine machine = FreeMachine();
  // 4 ranks of 1 s on 2 cores.
  EXPECT_DOUBLE_EQ(CoreSeconds(machine, std::vector<double>{1, 1, 1, 1}, 1), 2);
  // No rank is faster than one core.
  EXPECT_DOUBLE_EQ(CoreSeconds(machine, std::vector<double>{5, 1, 1, 1}, 1), 5);
  // A single rank uses one core of two, or both.
  EXPECT_DOUBLE_EQ(CoreSeconds(machine, std::vector<double>{4}, 1), 4);
  EXPECT_DOUBLE_EQ(CoreSeconds(machine, std::vector<double>{4}, 2), 2);
  // Nodes of 2 ranks: 3 s of work on the first, 8 s on the second.
  machine.ranks_per_node = 2;
  EXPECT_DOUBLE_EQ(CoreSeconds(machine, std::vector<double>{1, 2, 4, 4}, 1), 4);
}

// 64 patches of a sample on two ranks. Rank 1 owns three of the four slabs of z, and balanced placement moves
// 16 of its patches to rank 0; a message takes a second of a core at each end.
TEST(Predict, PricesTheMessagesOfTheExchange) {
  Machine machine = FreeMachine();
  machine.cores_per_node = 4;
  machine.message_overhead_s = 1;
  Workload workload = MakeWorkload({4, 4, 4}, {1, 1, 1}, {2, 1, 1});
  workload.owned = {{{{0, 0, 0}, {4, 4, 1}}}, {{{0, 0, 1}, {4, 4, 4}}}};
  const auto seconds = [&](std::int64_t batch) {
    workload.exchange_batch = batch;
    return Predict(machine, workload).of(Phase::kExchange).total();
  };
  EXPECT_DOUBLE_EQ(seconds(1), 16);
  EXPECT_DOUBLE_EQ(seconds(5), 4);
  EXPECT_DOUBLE_EQ(seconds(0), 1);
}

TEST(Predict, EncodesOnAllCores) {
  Machine machine = FreeMachine();
  machine.encode_s_per_byte = 1e-3;
  // 16^3 samples of 4 bytes in 8 patches: 16,384 bytes, 16.384 s of one core.
  EXPECT_DOUBLE_EQ(
      Predict(machine, MakeWorkload({16, 16, 16}, {8, 8, 8}, {1, 1, 1})).of(Phase::kEncode).total(), 16.384);
  EXPECT_DOUBLE_EQ(
      Predict(machine, MakeWorkload({16, 16, 16}, {8, 8, 8}, {2, 2, 2})).of(Phase::kEncode).total(), 8.192);
  // A rank without binding has both cores.
  machine.cores_per_rank = 0;
  EXPECT_DOUBLE_EQ(
      Predict(machine, MakeWorkload({16, 16, 16}, {8, 8, 8}, {1, 1, 1})).of(Phase::kEncode).total(), 8.192);
  // A single patch has one thread.
  EXPECT_DOUBLE_EQ(
      Predict(machine, MakeWorkload({16, 16, 16}, {16, 16, 16}, {1, 1, 1})).of(Phase::kEncode).total(),
      16.384);
}

// 12 samples of 4 bytes, patches of 4, ranks of 6: as above, 8 bytes of patch 1 move. The balanced placement
// assigns patch 1 to rank 0.
TEST(Predict, PricesTheExchange) {
  Machine machine = FreeMachine();
  machine.gather_bandwidth_bytes_per_s = 2;
  machine.send_bandwidth_bytes_per_s = 4;
  machine.receive_bandwidth_bytes_per_s = 8;
  machine.message_overhead_s = 100;
  const Workload workload = MakeWorkload({12, 1, 1}, {4, 1, 1}, {2, 1, 1});

  // Rank 0 keeps 24 bytes and receives 8: 12 + 4 + 1 + 100 s. Rank 1 keeps 16 and sends 8: 8 + 4 + 2 + 100 s.
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kExchange).cores, 117);

  // Memory: 24 + 16 kept, 8 sent and 8 received with two copies each.
  machine.memory_bandwidth_bytes_per_s = 0.5;
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kExchange).memory, 144);
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kExchange).total(), 144);

  machine.ranks_per_node = 1;
  machine.network_bandwidth_bytes_per_s = 16;
  machine.network_latency_s = 3;
  EXPECT_EQ(Predict(machine, workload).nodes, 2);
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kExchange).network, 3.5);
}

TEST(Predict, ReadsOnlyWhatIsInAFile) {
  Machine machine = FreeMachine();
  machine.read_bandwidth_rank_bytes_per_s = 1024;
  machine.read_bandwidth_total_bytes_per_s = 2048;
  Workload workload = MakeWorkload({16, 16, 16}, {8, 8, 8}, {1, 1, 2});
  EXPECT_EQ(Predict(machine, workload).of(Phase::kRead).total(), 0);
  workload.from_file = true;
  // 8,192 bytes a rank, 16,384 in all: 8 s either way; with four ranks the file system is the limit.
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kRead).file_system, 8);
  workload.owned = OneBoxEach(ProcessGridBoxes({16, 16, 16}, {1, 1, 4}));
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kRead).file_system, 8);
}

TEST(Predict, WritesTheFilesOfARankOneAfterTheOther) {
  Machine machine = FreeMachine();
  machine.stream_write_bandwidth_bytes_per_s = 1024;
  machine.file_create_s = 0.5;
  machine.publish_s = 0.25;
  Workload workload = MakeWorkload({16, 16, 16}, {8, 8, 8}, {2, 1, 1});
  // 16,384 bytes, 4 times smaller: 4,096 bytes, 4 s in one file.
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kWrite).file_system, 4 + 0.5 + 0.25);
  workload.files = 2;
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kWrite).file_system, 2 + 0.5 + 0.25);
  workload.files = 4;
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kWrite).file_system, 2 + 2 * 0.5 + 0.25);
  // One disk: what all write together comes first.
  machine.storage_targets = 1;
  machine.target_write_bandwidth_bytes_per_s = 512;
  EXPECT_DOUBLE_EQ(Predict(machine, workload).of(Phase::kWrite).file_system, 8 + 2 + 2 * 0.5 + 0.25);
  // At most as many files as patches.
  workload.files = 100;
  EXPECT_EQ(Predict(machine, workload).files, 8u);
}

// 8 patches of 512 bytes on 4 ranks, 2 each; 1 node each.
TEST(Predict, WritesByTheOtherPipelines) {
  Machine machine = FreeMachine();
  machine.ranks_per_node = 1;
  machine.stream_write_bandwidth_bytes_per_s = 1024;
  machine.receive_bandwidth_bytes_per_s = 512;
  machine.file_creates_per_s = 4;
  machine.part_s = 10;
  Workload workload = MakeWorkload({16, 16, 16}, {8, 8, 8}, {1, 2, 2});
  workload.files = 2;

  workload.pipeline = Pipeline::kFilePerRank;
  const Prediction each = Predict(machine, workload);
  EXPECT_EQ(each.files, 4u);
  // 4 creates at 4 a second, 1,024 bytes of a rank.
  EXPECT_DOUBLE_EQ(each.of(Phase::kWrite).file_system, 1 + 1);
  EXPECT_EQ(each.of(Phase::kTransfer).total(), 0);
  EXPECT_EQ(each.of(Phase::kAssign).total(), 0);

  workload.pipeline = Pipeline::kGroupCollective;
  const Prediction groups = Predict(machine, workload);
  EXPECT_EQ(groups.files, 2u);
  EXPECT_DOUBLE_EQ(groups.of(Phase::kWrite).file_system, 0.5 + 2);
  // The first rank of a group receives the 1,024 bytes of the other.
  EXPECT_DOUBLE_EQ(groups.of(Phase::kTransfer).total(), 2);
  EXPECT_EQ(groups.transfer.messages, 2u);

  workload.pipeline = Pipeline::kAggregated;
  const Prediction aggregated = Predict(machine, workload);
  EXPECT_DOUBLE_EQ(aggregated.of(Phase::kWrite).file_system, 0.5 + 2);
  // 4 patches for each aggregator, at 10 s.
  EXPECT_GE(aggregated.of(Phase::kTransfer).total(), 40);

  workload.pipeline = Pipeline::kCollective;
  machine.storage_targets = 2;
  machine.target_write_bandwidth_bytes_per_s = 1024;
  const Prediction collective = Predict(machine, workload);
  EXPECT_EQ(collective.files, 1u);
  // 4,096 bytes by 2 writers at 1,024 a second.
  EXPECT_DOUBLE_EQ(collective.of(Phase::kWrite).file_system, 0.25 + 2);
}

// 8 patches on 2 ranks of a node each.
TEST(Predict, AssignsInPiecesOrEverywhere) {
  Machine machine = FreeMachine();
  machine.ranks_per_node = 1;
  machine.assign_s_per_patch = 1;
  machine.network_bandwidth_bytes_per_s = 8;
  Workload workload = MakeWorkload({16, 16, 16}, {8, 8, 8}, {1, 1, 2});
  workload.files = 2;

  const Prediction pieces = Predict(machine, workload);
  machine.gathered_bytes_per_patch = 40;
  const Prediction everywhere = Predict(machine, workload);

  // One piece, of 8 patches at a second each.
  EXPECT_DOUBLE_EQ(pieces.of(Phase::kAssign).cores, 8);
  EXPECT_DOUBLE_EQ(pieces.of(Phase::kAssign).network, static_cast<double>(pieces.tables.message_bytes) / 8);
  EXPECT_DOUBLE_EQ(everywhere.of(Phase::kAssign).cores, 8);
  EXPECT_DOUBLE_EQ(everywhere.of(Phase::kAssign).network, 40);
}

TEST(Predict, SpreadsThePayloadByWeights) {
  Workload workload = MakeWorkload({16, 8, 8}, {8, 8, 8}, {2, 1, 1});
  workload.patch_weights = {300, 100};
  workload.ratio = 2;
  workload.files = 2;

  const Prediction prediction = Predict(FreeMachine(), workload);

  EXPECT_EQ(prediction.bytes_in, 4096u);
  EXPECT_EQ(prediction.bytes_out, 2048u);
  EXPECT_EQ(prediction.largest_file, 1536u);
}

TEST(Predict, TotalsItsPhases) {
  Workload workload = MakeWorkload({100, 60, 50}, {16, 16, 16}, {3, 2, 1});
  workload.from_file = true;
  const Prediction prediction = Predict(Machine(), workload);
  double sum = 0;
  for (const PhaseSeconds& phase : prediction.phases) sum += phase.total();
  EXPECT_DOUBLE_EQ(prediction.total_seconds(), sum);
  EXPECT_GT(prediction.of(Phase::kAssign).total(), 0);
}

}  // namespace
}  // namespace quarry::model
