#include "writer/model/network.h"

#include <gtest/gtest.h>

namespace quarry::model {
namespace {

// Czechowski et al., equations 3 to 5. 64 nodes that send 10 bytes each over links of 5 bytes/s: 2 s between
// fully connected nodes; 64^(1/6) = 2 times as long on a torus with perfect placement, 64^(1/3) = 4 times
// through the bisection. 4096 nodes of a 4D torus: 4096^(1/4) = 8 times; 1024 of a 5D one: 1024^(1/5) = 4
// times.
TEST(NetworkSeconds, EqualsTheEquationsOfThePaper) {
  const auto seconds = [&](Topology topology, double nodes) {
    return NetworkSeconds({topology, 5, 0}, nodes, 10, 10);
  };
  EXPECT_DOUBLE_EQ(seconds(Topology::kFull, 64), 2);
  EXPECT_DOUBLE_EQ(seconds(Topology::kTorus3dIdeal, 64), 4);
  EXPECT_DOUBLE_EQ(seconds(Topology::kTorus3d, 64), 8);
  EXPECT_DOUBLE_EQ(seconds(Topology::kTorus4d, 4096), 16);
  EXPECT_DOUBLE_EQ(seconds(Topology::kTorus5d, 1024), 8);
}

TEST(NetworkSeconds, IsNeverFasterThanTheBusiestLink) {
  const Network network = {Topology::kTorus3dIdeal, 5, 0.5};
  EXPECT_DOUBLE_EQ(NetworkSeconds(network, 64, 100, 10), 20.5);
  EXPECT_EQ(NetworkSeconds(network, 1, 100, 10), 0) << "one node has no network";
  EXPECT_EQ(NetworkSeconds(network, 64, 0, 0), 0) << "nothing to send, nobody to wait for";
}

TEST(ParseTopology, TakesEveryNameAndListsThemForOthers) {
  for (const Topology topology : {Topology::kFull, Topology::kTorus3d, Topology::kTorus3dIdeal,
                                  Topology::kTorus4d, Topology::kTorus5d}) {
    const Result<Topology> parsed = ParseTopology(Name(topology), "--topology");
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(*parsed, topology);
  }
  const Status wrong = ParseTopology("ring", "--topology").status();
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(
      wrong.message(),
      "--topology: topology \"ring\" is not known; known are full, torus3d, torus3d-ideal, torus4d, torus5d");
}

}  // namespace
}  // namespace quarry::model
