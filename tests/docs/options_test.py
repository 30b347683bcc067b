"""Documents and programs name the same options.

Every option that a program's --help shows, and its further helps like --help-limits, stands in the document of that
program, and every option in the tables of docs/commands.md, docs/inputs.md and docs/operations.md exists.

  QUARRY_BIN  directory of the programs; default: build/release/bin
"""

import json
import os
import re
import subprocess
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
BIN = Path(os.environ.get("QUARRY_BIN") or REPOSITORY / "build" / "release" / "bin").resolve()

# Where the options of each program are documented.
DOCUMENTS = {
    "quarry": "docs/commands.md",
    "quarry-write": "docs/inputs.md",
    "quarry-server": "docs/operations.md",
    "quarry-index": "docs/operations.md",
    "quarry-plan": "docs/planning.md",
    "quarry-iobench": "docs/planning.md",
    "quarry-spectrum": "docs/spectrum.md",
    "quarry-reproduce": "benchmarks/reproduction/README.md",
}

# docs/commands.md says this once for all programs.
COMMON = {"--help", "--help-json", "--version"}

OPTION = re.compile(r"--[a-z][a-z0-9-]*")

# Open MPI refuses root unless told otherwise, and needs no helper process for one rank.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_ess_singleton_isolated": "1",
}


def help_of(*command, flag="--help"):
    """The output of PROGRAM [SUBCOMMAND] --help."""
    done = subprocess.run([BIN / command[0], *command[1:], flag], env=ENVIRONMENT, capture_output=True,
                          text=True, timeout=600)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)} {flag} ended with {done.returncode}: {done.stderr}")
    return done.stdout


def whole_help_of(*command):
    """The same, and what the flags beside it print, like --help-limits."""
    text = help_of(*command)
    further = sorted(option for option in options_in(text) if option.startswith("--help-"))
    return "\n".join([text, *(help_of(*command, flag=flag) for flag in further)])


def options_in(text):
    """The options that a help text declares: they begin its indented lines."""
    declared = re.findall(r"^ +((?:-|[A-Z]+,-)\S*)", text, re.MULTILINE)
    return {option for names in declared for option in OPTION.findall(names)} - COMMON


def subcommands_in(text):
    """The subcommands that a help text lists."""
    section = re.search(r"^Subcommands:\n((?: +.*\n)*)", text, re.MULTILINE | re.IGNORECASE)
    return re.findall(r"^  ([a-z]\S*)", section.group(1), re.MULTILINE) if section else []


def commands_of(program):
    """(PROGRAM,), or (PROGRAM, SUBCOMMAND) for each, with the options of each."""
    text = whole_help_of(program)
    found = {(program,): options_in(text)}
    for subcommand in subcommands_in(text):
        found[(program, subcommand)] = options_in(whole_help_of(program, subcommand))
    return found


def options_in_json(program):
    """The same from --help-json: without positional arguments."""
    described = json.loads(help_of(program, flag="--help-json"))

    def names(command):
        return {name for option in command["options"] for name in option["names"] if name.startswith("--")} - COMMON

    found = {(program,): names(described)}
    return found | {(program, command["name"]): names(command) for command in described["commands"]}


def options_documented(document):
    """Every option that a document names as code."""
    text = (REPOSITORY / document).read_text()
    code = re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL)
    return {option for piece in code for option in OPTION.findall(piece)}


def options_in_tables(document):
    """The options in the first column of a document's tables."""
    rows = re.findall(r"^\| (`[^|]*?) \|", (REPOSITORY / document).read_text(), re.MULTILINE)
    return {option for cell in rows for option in OPTION.findall(cell)}


class Options(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = {command: options for program in DOCUMENTS for command, options in commands_of(program).items()}

    def test_help_is_understood(self):
        """A help text in another form must not pass as one without options."""
        self.assertIn("--box", self.commands[("quarry", "get")])
        self.assertIn("--count", self.commands[("quarry", "watch")])
        self.assertIn("--root", self.commands[("quarry-server",)])
        self.assertIn("--set", self.commands[("quarry-plan", "predict")])
        for command, options in self.commands.items():
            if command not in {("quarry",), ("quarry-plan",), ("quarry-reproduce",)}:
                self.assertTrue(options, f"no options in {' '.join(command)} --help")

    def test_help_and_its_further_helps_have_every_option(self):
        """Man pages and completions are made of --help-json."""
        for program in DOCUMENTS:
            for command, options in options_in_json(program).items():
                with self.subTest(command=" ".join(command)):
                    self.assertEqual(self.commands[command], options)

    def test_help_of_the_server_leaves_limits_to_a_help_of_their_own(self):
        usual = options_in(help_of("quarry-server"))
        limits = options_in(help_of("quarry-server", flag="--help-limits"))
        self.assertEqual(limits, {"--calls", "--client-bytes", "--client-calls", "--client-rate", "--connections",
                                  "--deadline", "--drain", "--max-request-bytes", "--queue", "--stall", "--streams"})
        self.assertEqual(usual & limits, set())
        self.assertLessEqual({"--root", "--listen", "--memory", "--help-limits"}, usual)

    def test_every_option_is_documented(self):
        for command, options in self.commands.items():
            document = DOCUMENTS[command[0]]
            missing = sorted(options - options_documented(document))
            with self.subTest(command=" ".join(command)):
                self.assertEqual(missing, [], f"{' '.join(command)} has options that {document} does not have")

    def test_every_documented_option_exists(self):
        for document in ("docs/commands.md", "docs/inputs.md", "docs/operations.md"):
            known = set().union(*(options for command, options in self.commands.items()
                                  if DOCUMENTS[command[0]] == document))
            with self.subTest(document=document):
                unknown = sorted(options_in_tables(document) - known)
                self.assertEqual(unknown, [], f"{document} has options that no program has")

    def test_every_subcommand_has_a_section(self):
        text = (REPOSITORY / "docs/commands.md").read_text()
        sections = set(re.findall(r"^## ([a-z]+):", text, re.MULTILINE))
        self.assertEqual(sections, {command[1] for command in self.commands if command[0] == "quarry" and len(command) > 1})


if __name__ == "__main__":
    unittest.main()
