#include "quarry/command_line/command_line.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace quarry::command_line {
namespace {

/// A program with an option of each kind.
struct Program {
  Program() {
    parser.AddOption("INPUT", &inputs, "files to read").Path();
    parser.SetHeading("Detail");
    parser.AddOption("-l,--level", &level, "of detail").NonNegative();
    parser.SetHeading("");
    parser.AddOption("--seed", &seed, "of random numbers");
    parser.AddOption("--scale", &scale, "of lengths").Between(0.5, 2);
    parser.AddOption("--origin", &origin, "x,y,z").SeparatedBy(',').Exactly(3);
    parser.AddOption("--codec", &codec, "how to store")
        .OneOf({"fast", "small"})
        .Environment("QUARRY_TEST_CODEC");
    parser.AddOption("--cert", &cert, "certificate");
    parser.AddOption("--key", &key, "its key").Needs("--cert");
    parser.AddFlag("--json", &json, "print JSON").Excludes("--level");
    parser.AddFlag("--verify,!--no-verify", &verify, "check");
    parser.AddConfigFile("--config", "file with options");
  }

  /// @errors those of the parser
  Status Read(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "program");
    answer = parser.Parse(static_cast<int>(arguments.size()), arguments.data());
    return answer.status();
  }

  std::vector<std::string> inputs;
  int level = 1;
  std::optional<std::uint64_t> seed;
  double scale = 1;
  std::vector<double> origin;
  std::string codec = "fast";
  std::string cert;
  std::string key;
  bool json = false;
  bool verify = true;
  Parser parser{"program", "does something"};
  Result<std::optional<std::string>> answer = std::optional<std::string>();
};

TEST(Parser, ReadsValuesOfEveryKind) {
  Program program;

  const Status status = program.Read({"a", "b", "-l", "03", "--seed", "18446744073709551615", "--scale",
                                      "0.5", "--origin", "1,-2,3e3", "--codec", "small", "--no-verify"});

  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_FALSE(program.answer->has_value());
  EXPECT_EQ(program.inputs, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(program.level, 3);
  EXPECT_EQ(program.seed, 18446744073709551615u);
  EXPECT_EQ(program.scale, 0.5);
  EXPECT_EQ(program.origin, (std::vector<double>{1, -2, 3000}));
  EXPECT_EQ(program.codec, "small");
  EXPECT_FALSE(program.verify);
}

TEST(Parser, LeavesValuesThatAreNotGiven) {
  Program program;

  ASSERT_TRUE(program.Read({}).ok());

  EXPECT_EQ(program.level, 1);
  EXPECT_EQ(program.seed, std::nullopt);
  EXPECT_TRUE(program.origin.empty());
  EXPECT_EQ(program.codec, "fast");
  EXPECT_TRUE(program.verify);
}

TEST(Parser, RefusesWrongValuesAndNamesThem) {
  const std::vector<std::pair<std::vector<const char*>, std::vector<const char*>>> cases = {
      {{"--level", "1.5"}, {"--level", "1.5"}},
      {{"--level", "-1"}, {"--level", "-1"}},
      {{"--level", "99999999999"}, {"--level", "99999999999"}},
      {{"--seed", "-5"}, {"--seed", "-5"}},
      {{"--seed", "18446744073709551616"}, {"--seed", "18446744073709551616", "18446744073709551615"}},
      {{"--level", "0x10"}, {"--level", "0x10"}},
      {{"--origin", "1,1e999,2"}, {"--origin", "1e999"}},
      {{"--origin", "1,2,nan"}, {"--origin", "nan"}},
      {{"--origin", "-inf,2,3"}, {"--origin", "-inf"}},
      {{"--scale", "2.5"}, {"--scale", "2.5", "0.5", "2"}},
      {{"--scale", "nan"}, {"--scale", "nan"}},
      {{"--origin", "1,2"}, {"--origin"}},
      {{"--codec", "slow"}, {"--codec", "slow", "fast", "small"}},
      {{"--key", "k"}, {"--key", "--cert"}},
      {{"--json", "--level", "1"}, {"--json", "--level"}},
      {{"--frobnicate"}, {"--frobnicate"}},
  };
  for (const auto& [arguments, mentions] : cases) {
    Program program;

    const Status status = program.Read(arguments);

    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << arguments[0];
    for (const char* mention : mentions)
      EXPECT_NE(status.message().find(mention), std::string::npos) << mention << " in " << status.message();
    EXPECT_NE(status.message().find("run program --help"), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find('\n'), std::string::npos) << status.message();
  }
}

TEST(Parser, TakesTheEnvironmentForAnOptionThatIsNotGiven) {
  ASSERT_EQ(setenv("QUARRY_TEST_CODEC", "small", 1), 0);
  Program from_environment;
  Program from_argument;

  const Status first = from_environment.Read({});
  const Status second = from_argument.Read({"--codec", "fast"});
  unsetenv("QUARRY_TEST_CODEC");

  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(from_environment.codec, "small");
  EXPECT_EQ(from_argument.codec, "fast");
}

TEST(Parser, ReadsAConfigFileAndTheCommandLineWins) {
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "command_line_test.toml";
  std::ofstream(path) << "level = 4\nscale = 2\n";
  Program program;

  const Status status = program.Read({"--config", path.c_str(), "--scale", "1.5"});

  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(program.level, 4);
  EXPECT_EQ(program.scale, 1.5);

  std::ofstream(path) << "lvel = 4\n";
  Program wrong;
  const Status unknown = wrong.Read({"--config", path.c_str()});
  EXPECT_EQ(unknown.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(unknown.message().find("lvel"), std::string::npos) << unknown.message();
  std::filesystem::remove(path);
  Program missing;
  EXPECT_EQ(missing.Read({"--config", path.c_str()}).code(), StatusCode::kNotFound);
}

TEST(Parser, AnswersHelpAndVersionWithoutARun) {
  Program help;
  Program version;

  ASSERT_TRUE(help.Read({"--help"}).ok());
  ASSERT_TRUE(version.Read({"--version"}).ok());

  ASSERT_TRUE(help.answer->has_value());
  for (const char* part : {"does something", "-l,--level", "of detail", "Detail", "0.5", "QUARRY_TEST_CODEC"})
    EXPECT_NE((**help.answer).find(part), std::string::npos) << part;
  EXPECT_EQ((**version.answer).rfind("program ", 0), 0u);
}

/// A program with options that most users do not need.
struct ProgramWithHelp : Program {
  ProgramWithHelp() {
    parser.AddOption("ROOT,--root", &root, "where the data are").Required();
    parser.SetHeading("Limits");
    parser.AddOption("--queue", &queue, "most that wait").Between(1, 10);
    parser.AddOption("--stall", &stall, "seconds of patience");
    parser.AddHelp("--help-limits", "Limits", "print the limits");
  }

  std::string root;
  int queue = 3;
  double stall = 60;
};

TEST(AddHelp, LeavesItsOptionsOutOfHelpAndPrintsThemAlone) {
  ProgramWithHelp all;
  ProgramWithHelp limits;

  ASSERT_TRUE(all.Read({"--help"}).ok());
  ASSERT_TRUE(limits.Read({"--level", "2", "--help-limits"}).ok()) << limits.answer.status().message();

  const std::string& help = all.answer->value();
  for (const char* part : {"--help-limits", "print the limits", "--root", "Detail", "--level"})
    EXPECT_NE(help.find(part), std::string::npos) << part << " in " << help;
  for (const char* part : {"--queue", "--stall", "Limits"})
    EXPECT_EQ(help.find(part), std::string::npos) << part << " in " << help;
  const std::string& rest = limits.answer->value();
  EXPECT_EQ(rest.rfind("Limits:\n  --queue INT in [1 - 10]", 0), 0u) << rest;
  for (const char* part : {"most that wait", "--stall FLOAT", "seconds of patience"})
    EXPECT_NE(rest.find(part), std::string::npos) << part << " in " << rest;
  EXPECT_EQ(rest.find("--level"), std::string::npos) << rest;
  EXPECT_EQ(rest.back(), '\n');
}

TEST(AddHelp, LeavesItsOptionsAsTheyWereElsewhere) {
  ProgramWithHelp runs;
  ProgramWithHelp wrong;
  ProgramWithHelp json;
  const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "add_help_test.toml";
  std::ofstream(path) << "root = \"data\"\nstall = 5\n";

  ASSERT_TRUE(runs.Read({"--config", path.c_str(), "--queue", "7"}).ok()) << runs.answer.status().message();
  ASSERT_TRUE(json.Read({"--help-json"}).ok());

  EXPECT_FALSE(runs.answer->has_value());
  EXPECT_EQ(runs.queue, 7);
  EXPECT_EQ(runs.stall, 5);
  const Status refused = wrong.Read({"data", "--queue", "11"});
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("--queue: 11 is not between 1 and 10"), std::string::npos)
      << refused.message();
  std::map<std::string, std::string> groups;
  const auto described = nlohmann::json::parse(json.answer->value());
  for (const auto& option : described["options"]) groups[option["names"].back()] = option["group"];
  EXPECT_EQ(groups.at("--queue"), "Limits");
  EXPECT_EQ(groups.at("--stall"), "Limits");
  EXPECT_EQ(groups.at("--help-limits"), "");

  std::ofstream(path) << "quue = 5\n";
  ProgramWithHelp unknown;
  const Status status = unknown.Read({"data", "--config", path.c_str()});
  EXPECT_NE(status.message().find("those of program --help and --help-limits, without --"), std::string::npos)
      << status.message();
  std::filesystem::remove(path);
}

TEST(Parser, RunsTheCommandThatWasChosen) {
  Parser parser("program", "has commands");
  int count = 0;
  Parser* get = parser.AddCommand("get", "reads");
  get->AddOption("--count", &count, "of things").Required();
  Parser* list = parser.AddCommand("list", "lists");
  const char* arguments[] = {"program", "get", "--count", "7"};

  ASSERT_TRUE(parser.Parse(4, arguments).ok());

  EXPECT_TRUE(get->chosen());
  EXPECT_FALSE(list->chosen());
  EXPECT_EQ(count, 7);
  EXPECT_EQ(parser.Parse(1, arguments).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parser.Parse(2, arguments).status().code(), StatusCode::kInvalidArgument);
}

TEST(Parser, EndsAsTheChosenCommandDoes) {
  Parser parser("program", "has commands");
  parser.AddCommand("get", "reads", [](Parser*) -> Command { return [] { return 0; }; });
  parser.AddCommand("check", "compares", [](Parser*) -> Command { return [] { return 1; }; });
  const char* arguments[] = {"program", "check"};

  EXPECT_EQ(parser.RunChosen().status().message(), "give a command; run program --help");
  ASSERT_TRUE(parser.Parse(2, arguments).ok());

  EXPECT_EQ(*parser.RunChosen(), 1);
}

TEST(HelpJson, ListsEveryOptionOfEveryCommand) {
  Program program;
  Parser* command = program.parser.AddCommand("get", "reads \"things\"");
  bool quiet = false;
  command->AddFlag("-q,--quiet", &quiet, "say nothing");

  ASSERT_TRUE(program.Read({"--help-json"}).ok());

  const auto json = nlohmann::json::parse(program.answer->value());
  EXPECT_EQ(json["name"], "program");
  std::map<std::string, nlohmann::json> options;
  for (const auto& option : json["options"]) options[option["names"].back()] = option;
  for (const char* name : {"INPUT", "--level", "--seed", "--scale", "--origin", "--codec", "--cert", "--key",
                           "--json", "--no-verify", "--config", "--help", "--version"})
    EXPECT_EQ(options.count(name), 1u) << name;
  EXPECT_EQ(options["INPUT"]["value"], "PATH");
  EXPECT_EQ(options["INPUT"]["repeated"], true);
  EXPECT_EQ(options["--level"]["names"], nlohmann::json({"-l", "--level"}));
  EXPECT_EQ(options["--level"]["group"], "Detail");
  EXPECT_EQ(options["--codec"]["choices"], nlohmann::json({"fast", "small"}));
  EXPECT_EQ(options["--codec"]["environment"], "QUARRY_TEST_CODEC");
  EXPECT_EQ(options["--json"]["value"], "");
  ASSERT_EQ(json["commands"].size(), 1u);
  EXPECT_EQ(json["commands"][0]["description"], "reads \"things\"");
  EXPECT_EQ(json["commands"][0]["options"][0]["names"], nlohmann::json({"-h", "--help"}));
  EXPECT_EQ(json["commands"][0]["options"][1]["names"], nlohmann::json({"-q", "--quiet"}));
}

TEST(RunProgram, GivesTheExitCodeOfTheRunOrOfItsError) {
  const char* arguments[] = {"program", "--frobnicate"};
  Program runs;
  Program fails;
  Program wrong;
  bool ran = false;

  EXPECT_EQ(RunProgram(&runs.parser, 1, arguments, [] { return Result<int>(7); }), 7);
  EXPECT_EQ(RunProgram(&fails.parser, 1, arguments, [] { return Result<int>(NotFound("no field \"x\"")); }),
            3);
  EXPECT_EQ(RunProgram(&wrong.parser, 2, arguments, [&] { return ran = true, Result<int>(0); }), 2);
  EXPECT_FALSE(ran);
}

TEST(RunProgram, PrintsErrorsAsOneLineWithTheNameOfTheProgram) {
  const char* arguments[] = {"program"};
  Program program;

  testing::internal::CaptureStderr();
  RunProgram(
      &program.parser, 1, arguments, []() -> Result<int> { throw std::bad_alloc(); }, "ask for less");

  EXPECT_EQ(testing::internal::GetCapturedStderr(), "program: out of memory; ask for less\n");
}

}  // namespace
}  // namespace quarry::command_line
