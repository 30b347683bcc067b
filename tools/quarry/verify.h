#pragma once

#include "quarry/input/input.h"
#include "tools/quarry/command.h"

namespace quarry::tools {

/// The options of `quarry verify`.
struct VerifyOptions {
  QuestionOptions question;
  std::string against;
  input::InputOptions source;
  std::string dims;
  std::string type;
  std::string byte_order = "little";
  std::vector<std::string> index;
  std::string records = "none";
  bool json = false;
};

/// Compares a field with its source file. `quarry` runs quarry-verify for it: the libraries of foreign files
/// would take most of the time of every command that does not need them.
Result<int> VerifyAgainst(VerifyOptions options);

}  // namespace quarry::tools
