#pragma once

#include <google/protobuf/message.h>

#include <string>

#include "quarry/base/status.h"

namespace quarry::server {

/// Parses the question of a call. A message may be twenty times larger in memory than on the wire, with
/// strings of no length and fields that nobody knows; this one is refused before it is parsed if it has more
/// than 4096 strings, messages and unknown fields.
/// @errors kInvalidArgument: not such a message, or too many of these
Status ParseQuestion(const std::string& bytes, google::protobuf::Message* question);

}  // namespace quarry::server
