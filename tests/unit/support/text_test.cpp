#include "support/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "tegula/error.h"

namespace tegula::text_test {
namespace {

using testing::ElementsAre;
namespace fs = std::filesystem;

class TextFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(dir_); }
  void TearDown() override { fs::remove_all(dir_); }
  const fs::path dir_ =
      fs::temp_directory_path() / ("tegula_text_test." + std::to_string(::getpid()));
};

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_THAT(split("a,", ','), ElementsAre("a", ""));
}

TEST(Text, TrimTakesBothSides) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
}

TEST_F(TextFiles, RoundTripsBytes) {
  const std::string content("line\n\0\xff binary", 14);
  write_file(dir_ / "new folder" / "file", content);
  EXPECT_EQ(read_file(dir_ / "new folder" / "file"), content);
  write_file(dir_ / "new folder" / "file", "shorter");
  EXPECT_EQ(read_file(dir_ / "new folder" / "file"), "shorter");
}

TEST_F(TextFiles, LeavesNoTemporaryFile) {
  write_file(dir_ / "file", "x");
  EXPECT_THROW(write_file(dir_, "a folder is in the way"), DeviceError);
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_), fs::directory_iterator()), 1);
  EXPECT_FALSE(fs::exists(dir_.string() + ".tmp"));
}

TEST_F(TextFiles, NamesTheFileAndTheReason) {
  try {
    read_file(dir_ / "absent");
    FAIL() << "read a file that is not there";
  } catch (const DeviceError& e) {
    EXPECT_EQ(e.diagnostic().code, "T2008");
    EXPECT_EQ(e.diagnostic().message, "cannot read " + (dir_ / "absent").string() +
                                          ": No such file or directory (ENOENT, 2)");
    EXPECT_EQ(e.code(), ENOENT);
  }
}

TEST_F(TextFiles, ReadersSeeOldOrNewOnly) {
  const std::string old_text(100000, 'o'), new_text(200000, 'n');
  write_file(dir_ / "file", old_text);
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) write_file(dir_ / "file", i % 2 ? old_text : new_text);
  });
  for (int i = 0; i < 50; ++i) {
    const std::string seen = read_file(dir_ / "file");
    EXPECT_TRUE(seen == old_text || seen == new_text) << seen.size();
  }
  writer.join();
}

}  // namespace
}  // namespace tegula::text_test
