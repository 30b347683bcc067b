// For compilers without libFuzzer: runs a target over the files of a corpus, then over random mutations of
// them. Usage: fuzz_NAME [--mutations N] [--seed S] FILE|FOLDER...
// The default seed is QUARRY_SEED or 1; the same seed gives the same mutations. A finding ends the process
// after its number was printed.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "tests/testing/random.h"

namespace quarry::fuzz {
namespace {

using Input = std::vector<std::uint8_t>;
using testing::Random;

/// Sorted by name, so that a seed has the same effect everywhere.
std::vector<std::string> FilesUnder(const std::string& path) {
  std::vector<std::string> files;
  if (!std::filesystem::is_directory(path)) return {path};
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::uint8_t AnyByte(Random* random) {
  constexpr std::uint8_t kTelling[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
  return random->OneIn(2) ? kTelling[random->Below(std::size(kTelling))]
                          : static_cast<std::uint8_t>(random->Next());
}

void Mutate(const std::vector<Input>& corpus, Random* random, Input* input) {
  const auto place = [&] { return static_cast<std::ptrdiff_t>(random->Below(input->size())); };
  if (input->empty()) input->push_back(0);
  // Mutations that shift the rest are rare: most formats are lost after one.
  switch (random->Below(20)) {
    case 0:
      input->insert(input->begin() + place(), 1 + random->Below(8), AnyByte(random));
      break;
    case 1: {
      const std::ptrdiff_t begin = place();
      const auto most = static_cast<std::uint64_t>(input->end() - input->begin() - begin);
      const auto size = static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(most, 1 + random->Below(16)));
      input->erase(input->begin() + begin, input->begin() + begin + size);
      break;
    }
    case 2:
      input->resize(random->Below(input->size() + 1));
      break;
    case 3:
    case 4: {  // a part of another input over this one
      const Input& other = corpus[random->Below(corpus.size())];
      if (other.empty()) break;
      const std::size_t from = random->Below(other.size());
      const std::size_t to = random->Below(input->size());
      const std::size_t size = std::min({1 + random->Below(64), other.size() - from, input->size() - to});
      std::memcpy(input->data() + to, other.data() + from, size);
      break;
    }
    case 5:
    case 6:
    case 7:
    case 8: {  // a number a little larger or smaller
      std::uint8_t& byte = (*input)[random->Below(input->size())];
      byte = static_cast<std::uint8_t>(byte + random->Between(-4, 4));
      break;
    }
    case 9:
    case 10:
    case 11:
    case 12:
      (*input)[random->Below(input->size())] = AnyByte(random);
      break;
    default:
      (*input)[random->Below(input->size())] ^= static_cast<std::uint8_t>(1 << random->Below(8));
      break;
  }
}

void RunOne(const Input& input) {
  // In memory of exactly its size, so that a read beyond the end is detected.
  const Input exact(input);
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

int Main(int argc, char** argv) {
  std::uint64_t mutations = 0;
  std::uint64_t seed = testing::SeedFromEnvironment();
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if ((argument == "--mutations" || argument == "--seed") && i + 1 < argc) {
      (argument == "--seed" ? seed : mutations) = std::strtoull(argv[++i], nullptr, 10);
    } else {
      const std::vector<std::string> found = FilesUnder(argument);
      files.insert(files.end(), found.begin(), found.end());
    }
  }
  std::vector<Input> corpus;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "cannot read %s\n", file.c_str());
      return 2;
    }
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    RunOne(corpus.back());
  }
  if (corpus.empty()) {
    std::fprintf(stderr, "no input: name files or folders of a corpus\n");
    return 2;
  }
  std::printf("%zu inputs\n", corpus.size());
  for (std::uint64_t i = 0; i < mutations; ++i) {
    if (i % 1000 == 0) {
      std::printf("mutation %llu of seed %llu\n", static_cast<unsigned long long>(i),
                  static_cast<unsigned long long>(seed));
      std::fflush(stdout);
    }
    Random random(seed * 1000003 + i);
    Input input = corpus[random.Below(corpus.size())];
    for (std::uint64_t n = 1 + random.Below(4); n > 0; --n) Mutate(corpus, &random, &input);
    RunOne(input);
  }
  return 0;
}

}  // namespace
}  // namespace quarry::fuzz

int main(int argc, char** argv) { return quarry::fuzz::Main(argc, argv); }
