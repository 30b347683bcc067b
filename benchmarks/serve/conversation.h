#pragma once

#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "quarry/base/status.h"

/// How run.py talks to the programs that it measures: a question a line on stdin, an answer a line on stdout,
/// both JSON objects. All programs stay open, so that they can be asked in turns.
namespace quarry::serve_bench {

using Json = nlohmann::ordered_json;

/// Seconds of a clock that all processes of a machine share.
inline double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Answers until stdin ends. A question that fails is answered with {"error": ...}.
inline void Converse(const std::function<Result<Json>(const Json& question)>& answer) {
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json question = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    const Result<Json> result =
        question.is_object() ? answer(question) : InvalidArgument("\"{}\" is no JSON object", line);
    std::cout << (result.ok() ? *result : Json{{"error", result.status().message()}}) << std::endl;
  }
}

}  // namespace quarry::serve_bench
