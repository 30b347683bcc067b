#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "quarry/base/status.h"
#include "quarry/base/units.h"

namespace quarry::client::internal {

/// The pages of a list. A hostile server may send them without end, so keys ascend, only the last page may be
/// empty, and the whole list has a limit.
template <typename Key>
class Pages {
 public:
  /// @param server  address, for messages
  /// @param most    [bytes] of all pages
  Pages(std::string server, std::uint64_t most) : server_(std::move(server)), most_(most) {}

  /// Checks the key of the next item. @errors kInternal: it does not come after the last one
  Status TakeItem(Key key) {
    if (begun_ && !(last_ < key))
      return InternalError("the server {} lists \"{}\" after \"{}\"; a list goes on in ascending order",
                           server_, key, last_);
    begun_ = page_has_items_ = true;
    last_ = std::move(key);
    return Status::Ok();
  }

  /// Takes a page after its items. @returns whether another one follows. @errors kInternal
  template <typename Response>
  Result<bool> TakePage(const Response& page) {
    bytes_ += page.ByteSizeLong();
    if (bytes_ > most_)
      return InternalError("the list of the server {} does not end: it is longer than {}", server_,
                           FormatBytes(most_));
    if (page.next_page_token().empty()) return false;
    if (!std::exchange(page_has_items_, false))
      return InternalError("the server {} sends an empty page that is not the last", server_);
    if (page.next_page_token() == token_)
      return InternalError("the server {} sends the same page again", server_);
    token_ = page.next_page_token();
    return true;
  }

 private:
  const std::string server_;
  const std::uint64_t most_;
  std::uint64_t bytes_ = 0;
  bool begun_ = false;
  bool page_has_items_ = false;
  Key last_{};
  std::string token_;
};

}  // namespace quarry::client::internal
