#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

// Emscripten's own headers define it for functions that the linker keeps and exports.
#define QUARRY_EXPORT extern "C" __attribute__((used, visibility("default")))

#include "quarry/supplied/question.h"

// Functions for the page: a dataset on a web server, and questions about it. Numbers of bytes are doubles, as
// JavaScript has them; all else comes from our own page, which is trusted. The bytes that it fetched are not.
namespace {

using namespace quarry;
using namespace quarry::supplied;
using Question = SuppliedDataset::Question;

/// [bytes] of manifests, tables and decoded patches.
constexpr std::uint64_t kMemory = 256 << 20;

/// A question, and what of it the page looks at.
struct Asked {
  std::unique_ptr<Question> question;
  std::vector<std::string> messages = {};
  std::size_t next = 0;
};

/// Something wanted, as the page reads it: eight words of four bytes.
struct Shown {
  std::uint32_t kind;
  std::uint32_t awaited;
  double offset;
  double size;
  const char* path;
  std::uint32_t path_size;
};
static_assert(sizeof(Shown) == 32);

std::string TextOf(const char* begin, std::size_t size) { return {begin, size}; }

}  // namespace

QUARRY_EXPORT void* bucket_allocate(std::size_t bytes) { return std::malloc(bytes == 0 ? 1 : bytes); }
QUARRY_EXPORT void bucket_release(void* begin) { std::free(begin); }

/// @param url  of the dataset
QUARRY_EXPORT SuppliedDataset* bucket_open(const char* url, std::size_t size) {
  return new SuppliedDataset(TextOf(url, size), kMemory);
}

QUARRY_EXPORT Asked* bucket_begin(SuppliedDataset* dataset, const char* method, std::size_t method_size,
                                  const char* request, std::size_t request_size) {
  return new Asked{dataset->Begin(TextOf(method, method_size), TextOf(request, request_size))};
}
QUARRY_EXPORT void bucket_end(Asked* asked) { delete asked; }

/// @returns 0: something is wanted; 1: it has ended
QUARRY_EXPORT int bucket_ask(Asked* asked) {
  const Question::State state = asked->question->Ask();
  asked->messages = asked->question->TakeMessages();
  asked->next = 0;
  return state == Question::State::kEnded ? 1 : 0;
}

/// A code of quarry::StatusCode.
QUARRY_EXPORT int bucket_status(const Asked* asked) {
  return static_cast<int>(asked->question->status().code());
}
QUARRY_EXPORT const char* bucket_status_text(const Asked* asked) {
  return asked->question->status().message().c_str();
}

/// Moves to the next message of the answer. @returns its size [bytes], -1: there is none
QUARRY_EXPORT int bucket_next_message(Asked* asked) {
  if (asked->next > 0) asked->messages[asked->next - 1] = {};
  if (asked->next == asked->messages.size()) return -1;
  return static_cast<int>(asked->messages[asked->next++].size());
}
QUARRY_EXPORT const char* bucket_message(const Asked* asked) {
  return asked->messages[asked->next - 1].data();
}

QUARRY_EXPORT std::size_t bucket_wanted_count(const Asked* asked) { return asked->question->wanted().size(); }
/// Until the next call of any function.
QUARRY_EXPORT const Shown* bucket_wanted(const Asked* asked, std::size_t number) {
  static Shown shown;
  const Wanted& wanted = asked->question->wanted()[number];
  shown = {static_cast<std::uint32_t>(wanted.kind),
           wanted.awaited ? 1U : 0U,
           static_cast<double>(wanted.offset),
           static_cast<double>(wanted.size),
           wanted.path.data(),
           static_cast<std::uint32_t>(wanted.path.size())};
  return &shown;
}

/// Hands over what was wanted.
/// @param total  [bytes] of the whole object; below 0: not told
QUARRY_EXPORT void bucket_supply(Asked* asked, std::uint32_t kind, const char* path, std::size_t path_size,
                                 double offset, double size, double total, const char* tag,
                                 std::size_t tag_size, const std::byte* bytes, std::size_t bytes_size) {
  Wanted wanted{static_cast<Wanted::Kind>(kind), TextOf(path, path_size), static_cast<std::uint64_t>(offset),
                static_cast<std::uint64_t>(size), false};
  Supplied supplied;
  if (total >= 0) supplied.size = static_cast<std::uint64_t>(total);
  supplied.tag = TextOf(tag, tag_size);
  supplied.bytes.assign(bytes, bytes + bytes_size);
  asked->question->Supply(wanted, std::move(supplied));
}

/// @param code  of quarry::StatusCode
QUARRY_EXPORT void bucket_fail(Asked* asked, const char* path, std::size_t path_size, int code,
                               const char* text, std::size_t text_size) {
  asked->question->Fail(TextOf(path, path_size),
                        Status(static_cast<StatusCode>(code), TextOf(text, text_size)));
}
