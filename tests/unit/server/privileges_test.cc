#include "server/guard/privileges.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/testing/make_dataset.h"

namespace quarry::server {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kSomebody = 1000;

TEST(NeedlessPrivileges, NamesRootAndFilesThatAreOpenToEverybody) {
  const testing::TemporaryFolder folder;
  const fs::path file = folder.path() / "server-key.pem";
  std::ofstream(file) << "secret";
  const auto warnings = [&](unsigned mode) {
    fs::permissions(file, static_cast<fs::perms>(mode));
    return NeedlessPrivileges(kSomebody, {"", folder.path() / "none", file});
  };
  for (const unsigned mode : {0600u, 0640u, 0660u}) EXPECT_TRUE(warnings(mode).empty()) << mode;
  for (const auto& [mode, what] : {std::pair{0644u, "read by everybody"},
                                   {0604u, "read by everybody"},
                                   {0666u, "changed by everybody"},
                                   {0602u, "changed by everybody"}}) {
    const auto found = warnings(mode);
    ASSERT_EQ(found.size(), 1u) << mode;
    EXPECT_NE(found[0].find(file.string()), std::string::npos) << found[0];
    EXPECT_NE(found[0].find(what), std::string::npos) << found[0];
  }
  const auto root = NeedlessPrivileges(0, {});
  ASSERT_EQ(root.size(), 1u);
  EXPECT_NE(root[0].find("runs as root"), std::string::npos);
}

}  // namespace
}  // namespace quarry::server
