#include "writer/model/machine.h"

#include <gtest/gtest.h>

namespace quarry::model {
namespace {

TEST(ParseMachine, TakesBackWhatToJsonWrote) {
  Machine machine;
  machine.name = "node \"7\"";
  machine.topology = Topology::kTorus3d;
  machine.encode_s_per_byte = 5e-9;

  const Result<Machine> back = ParseMachine(ToJson(machine), "here.json");

  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(back->name, machine.name);
  EXPECT_EQ(back->topology, machine.topology);
  for (const MachineConstant& constant : MachineConstants())
    EXPECT_DOUBLE_EQ((*back).*constant.value, machine.*constant.value) << constant.name;
}

TEST(ParseMachine, LeavesDefaultsToWhatIsNotThere) {
  const Result<Machine> machine = ParseMachine(R"({"cores_per_node": 64})", "here.json");

  ASSERT_TRUE(machine.ok());
  EXPECT_EQ(machine->cores_per_node, 64);
  EXPECT_EQ(machine->encode_s_per_byte, Machine().encode_s_per_byte);
}

TEST(ParseMachine, SaysWhatIsWrong) {
  const auto message = [](const char* json) {
    const Result<Machine> machine = ParseMachine(json, "here.json");
    EXPECT_EQ(machine.status().code(), StatusCode::kInvalidArgument) << json;
    return machine.status().message();
  };
  EXPECT_NE(message("[1]").find("here.json"), std::string::npos);
  EXPECT_NE(message("{").find("here.json"), std::string::npos);
  EXPECT_NE(message(R"({"cores": 2})").find("\"cores\" is no constant"), std::string::npos);
  EXPECT_NE(message(R"({"cores_per_node": 0})").find("above 0"), std::string::npos);
  EXPECT_NE(message(R"({"publish_s": -1})").find("at least 0"), std::string::npos);
  EXPECT_NE(message(R"({"publish_s": "long"})").find("publish_s"), std::string::npos);
  EXPECT_NE(message(R"({"topology": "ring"})").find("torus3d-ideal"), std::string::npos);
}

TEST(SetConstant, TakesNumbersAndTopologies) {
  Machine machine;
  EXPECT_TRUE(SetConstant("encode_s_per_byte=2.5e-9", &machine).ok());
  EXPECT_TRUE(SetConstant("topology=torus3d-ideal", &machine).ok());
  EXPECT_EQ(machine.encode_s_per_byte, 2.5e-9);
  EXPECT_EQ(machine.topology, Topology::kTorus3dIdeal);

  for (const char* wrong : {"encode_s_per_byte", "encode_s_per_byte=", "encode_s_per_byte=1x", "speed=1",
                            "cores_per_node=0", "publish_s=nan", "topology=ring"})
    EXPECT_EQ(SetConstant(wrong, &machine).code(), StatusCode::kInvalidArgument) << wrong;
}

}  // namespace
}  // namespace quarry::model
