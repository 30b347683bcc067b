// Hostile token files.

#include "server/tokens.h"
#include "tests/fuzz/memory_file.h"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quarry;
  const fuzz::MemoryFile file(std::as_bytes(std::span(data, size)));
  const auto store = server::TokenStore::Load(file.path());
  if (!store.ok()) {
    fuzz::Require(store.status().code() == StatusCode::kInvalidArgument,
                  "an error of hostile text is kInvalidArgument");
    return 0;
  }
  fuzz::Require((*store)->size() > 0, "a file that is taken has a token");
  // The token of the corpus opens a dataset only if the file has its hash.
  const auto known = (*store)->Authenticate("Bearer secret");
  if (!known.ok()) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  fuzz::Require(text.find(server::Sha256Hex("secret")) != std::string_view::npos,
                "a token is known by its hash");
  fuzz::Require(!(*known)->client.empty() && !(*known)->patterns.empty(), "a token has a name and datasets");
  return 0;
}
