// The lock of writers, on file systems with flock and without.
#include "quarry/base/directory_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>

namespace {
int flock_error = 0;
}

/// Takes the place of the system's: a file system without locks, as the test wants it.
extern "C" int flock(int fd, int operation) {
  if (flock_error == 0) return static_cast<int>(::syscall(SYS_flock, fd, operation));
  errno = flock_error;
  return -1;
}

namespace quarry {
namespace {

namespace fs = std::filesystem;

constexpr LockOptions kNoWait{.timeout_seconds = 0};
constexpr LockOptions kBreak{.timeout_seconds = 0, .break_lock = true};

class DirectoryLockTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("quarry-lock-test-{}", ::getpid());
    fs::create_directories(folder_);
  }
  void TearDown() override {
    flock_error = 0;
    fs::remove_all(folder_);
  }
  fs::path owner() const { return folder_ / DirectoryLock::kOwnerFile; }
  std::string OwnerText() const {
    std::ifstream file(owner());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void LeaveBehind(const std::string& text) const { std::ofstream(owner()) << text; }
  /// @returns the message of the refusal
  std::string Refused(const LockOptions& options, StatusCode code = StatusCode::kUnavailable) const {
    const auto lock = DirectoryLock::Acquire(folder_, options);
    EXPECT_EQ(lock.status().code(), code) << lock.status().message();
    return lock.status().message();
  }

  fs::path folder_;
};

/// The number of a process that has just ended.
pid_t EndedProcess() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

std::string ThisHost() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

TEST_F(DirectoryLockTest, IsRefusedWhileAnotherHoldsIt) {
  const auto held = DirectoryLock::Acquire(folder_, kNoWait);
  ASSERT_TRUE(held.ok());
  EXPECT_FALSE(fs::exists(owner())) << "flock leaves nothing behind";
  EXPECT_NE(Refused(kNoWait).find("another process is writing"), std::string::npos);
}

/// The attack: these errors counted as locked, so that both wrote.
TEST_F(DirectoryLockTest, OneHolderAtATimeWithoutFlock) {
  for (const int error : {ENOSYS, EOPNOTSUPP, ENOLCK}) {
    flock_error = error;
    {
      const auto held = DirectoryLock::Acquire(folder_, kNoWait);
      ASSERT_TRUE(held.ok()) << held.status().message();
      const std::string message = Refused(kNoWait);
      for (const std::string& part :
           {fmt::format("process {}", ::getpid()), ThisHost(), owner().string(), std::string("--break-lock")})
        EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_NE(Refused(kBreak, StatusCode::kFailedPrecondition).find("and runs"), std::string::npos);
      flock_error = 0;
      Refused(kNoWait);  // a machine that has flock
      flock_error = error;
    }
    EXPECT_FALSE(fs::exists(owner())) << "the end of the lock";
    EXPECT_TRUE(DirectoryLock::Acquire(folder_, kNoWait).ok());
  }
}

TEST_F(DirectoryLockTest, OtherErrorsAreErrors) {
  flock_error = EIO;
  Refused(kNoWait, StatusCode::kInternal);
  EXPECT_FALSE(fs::exists(owner()));
}

TEST_F(DirectoryLockTest, AnOwnerThatHasEndedIsNamedAtOnceAndCanBeRemoved) {
  for (const int error : {0, ENOLCK}) {
    flock_error = error;
    const pid_t ended = EndedProcess();
    LeaveBehind(fmt::format("{} {} 2026-01-31T12:00:00Z 0\n", ThisHost(), ended));
    const std::string message = Refused({.timeout_seconds = 3600});  // does not wait for it
    for (const std::string& part : {fmt::format("process {}", ended), std::string("2026-01-31T12:00:00Z"),
                                    std::string("has ended"), owner().string()})
      EXPECT_NE(message.find(part), std::string::npos) << message;

    const auto lock = DirectoryLock::Acquire(folder_, kBreak);
    EXPECT_TRUE(lock.ok()) << lock.status().message();
    EXPECT_EQ(OwnerText().find(fmt::format("{} ", ended)), std::string::npos);
  }
}

TEST_F(DirectoryLockTest, AnOwnerThatCannotBeKnownIsNamedAndCanBeRemoved) {
  flock_error = ENOLCK;
  for (const char* text : {"elsewhere 1 2026-01-31T12:00:00Z 0\n", "", "\xff\n", "host -4 now 0\n"}) {
    LeaveBehind(text);
    EXPECT_NE(Refused(kNoWait).find(owner().string()), std::string::npos);
    EXPECT_EQ(OwnerText(), text) << "a refusal changes nothing";
    EXPECT_TRUE(DirectoryLock::Acquire(folder_, kBreak).ok());
    EXPECT_FALSE(fs::exists(owner()));
  }
}

TEST_F(DirectoryLockTest, StaysWithARenamedDirectory) {
  flock_error = ENOLCK;
  const fs::path renamed = folder_ / "b";
  fs::create_directories(folder_ / "a");
  {
    const auto lock = DirectoryLock::Acquire(folder_ / "a", kNoWait);
    ASSERT_TRUE(lock.ok());
    fs::rename(folder_ / "a", renamed);
    EXPECT_EQ(DirectoryLock::Acquire(renamed, kNoWait).status().code(), StatusCode::kUnavailable);
  }
  EXPECT_TRUE(fs::is_empty(renamed));
}

TEST_F(DirectoryLockTest, DoesNotRemoveTheOwnerFileOfAnother) {
  flock_error = ENOLCK;
  {
    const auto broken = DirectoryLock::Acquire(folder_, kNoWait);
    ASSERT_TRUE(broken.ok());
    fs::remove(owner());
    LeaveBehind("elsewhere 1 2026-01-31T12:00:00Z 0\n");
  }
  EXPECT_EQ(OwnerText(), "elsewhere 1 2026-01-31T12:00:00Z 0\n");
}

TEST_F(DirectoryLockTest, RemovesItsDirectoryUnlessAnotherHasIt) {
  for (const int error : {0, ENOLCK}) {
    flock_error = error;
    fs::create_directories(folder_ / "a");
    auto lock = DirectoryLock::Acquire(folder_ / "a", kNoWait);
    ASSERT_TRUE(lock.ok());
    std::move(*lock).RemoveDirectory();
    EXPECT_FALSE(fs::exists(folder_ / "a"));
  }
  EXPECT_EQ(DirectoryLock::Acquire(folder_ / "a", kNoWait).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace quarry
