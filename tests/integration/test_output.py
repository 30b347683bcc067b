"""Output that nobody receives: a full disk, a closed descriptor, a pipe without a reader. For every program and every
subcommand that --help-json names, so that a new one needs an example here."""

import json
import os
import signal
import subprocess

import quarry_testing as qt

# The exit code that a shell shows of a program that SIGPIPE has ended.
READER_HAS_GONE = 128 + signal.SIGPIPE

SOURCE = ("f.raw", "--dims", "8x8x8", "--type", "float32", "--field", "f", "--tolerance", 1e-3)
GRID = ("--dims", "64x64x64", "--ranks", "2x2x2")

# The arguments of a run that prints, in a folder with the dataset "run.quarry" and the raw file "f.raw". NEW is a name
# that does not exist yet.
EXAMPLES = {
    "quarry ls": ["."],
    "quarry info": ["run.quarry"],
    "quarry get": ["run.quarry", "--output", "NEW.raw", "--json"],
    "quarry plan": ["run.quarry"],
    "quarry stats": ["run.quarry"],
    "quarry points": ["run.quarry", "--field", "f", "--at", "1,1,1"],
    "quarry watch": ["run.quarry", "--count", 1],
    "quarry verify": ["run.quarry"],
    "quarry upgrade": ["run.quarry"],
    "quarry pack": ["run.quarry"],
    "quarry cache": ["."],
    "quarry cp": ["run.quarry", "NEW.quarry"],
    "quarry-index": ["run.quarry", "--index", "NEW"],
    "quarry-iobench": ["--dir", ".", "--sizes", "0.01", "--repeat", 1],
    "quarry-plan placement": [*GRID, "--patch", 16],
    "quarry-plan predict": [*GRID, "--patch", 16],
    "quarry-reproduce exchange": ["--dims", "8x8x8", "--patch", 4, "--repeat", 1],
    "quarry-reproduce fft": ["--dims", 64],
    "quarry-reproduce placement": ["--dims", "8x8x8", "--patch", 4, "--repeat", 1],
    "quarry-reproduce stack": [*GRID],
    "quarry-server": [".", "--listen", "127.0.0.1:0"],
    "quarry-spectrum": ["run.quarry", "--field", "f"],
    "quarry-write": [*SOURCE, "--output", "NEW.quarry"],
    "quarry-write-single": [*SOURCE, "--output", "NEW.quarry"],
}
# These write a file, and nothing to standard output.
SILENT = {"quarry-plan calibrate"}


def programs():
    return sorted(path.name for path in qt.BIN.iterdir() if path.name.startswith("quarry") and os.access(path, os.X_OK))


def commands_of(program):
    """The program, or each of its subcommands."""
    described = json.loads(qt.succeed(program, "--help-json").out)
    return [f"{program} {command['name']}" for command in described["commands"]] or [program]


class LostOutput(qt.QuarryTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        field = qt.turbulent((8, 8, 8))
        qt.convert(field, cls.shared / "run.quarry", "--tolerance", 1e-3)
        field.tofile(cls.shared / "f.raw")
        cls.made = 0

    def arguments(self, command):
        type(self).made += 1
        return [str(argument).replace("NEW", f"new{self.made}") for argument in EXAMPLES[command]]

    def start(self, command, arguments, **options):
        """A run in the shared folder, with its standard error only."""
        program, *subcommand = command.split()
        line = [qt.executable(program), *subcommand, *arguments]
        done = subprocess.run(line, stderr=subprocess.PIPE, text=True, cwd=self.shared, env=qt.ENVIRONMENT,
                              timeout=qt.TIMEOUT, check=False, **options)
        return qt.Outcome(" ".join(line), done.returncode, "", done.stderr)

    def start_with_full_disk(self, command, arguments):
        with open("/dev/full", "wb") as full:
            return self.start(command, arguments, stdout=full)

    def start_without_reader(self, command, arguments, **options):
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "wb") as pipe:
            return self.start(command, arguments, stdout=pipe, **options)

    def assert_told(self, outcome, error):
        """mpirun may add lines of its own to the one of the program."""
        self.assertEqual(outcome.code, qt.IO_ERROR, outcome)
        name = os.path.basename(outcome.command.split()[0]).removesuffix("-single")
        self.assertEqual(len(outcome.lines_of(name)), 1, outcome)
        self.assertIn(f"{name}: cannot write to standard output: {error}; ", outcome.err)

    def assert_silent(self, outcome):
        """The server's log is not about its output."""
        self.assertEqual([line for line in outcome.err.splitlines() if "[quarry-server]" not in line], [], outcome)

    def test_each_command_has_an_example_that_prints(self):
        commands = {command for program in programs() for command in commands_of(program)}
        self.assertEqual(commands & SILENT, SILENT)
        self.assertEqual(commands - SILENT, {command for command in EXAMPLES if (qt.BIN / command.split()[0]).exists()})
        for command in sorted(commands - SILENT - {"quarry-server"}):  # which runs until it is told to stop
            with self.subTest(command):
                program, *subcommand = command.split()
                self.assertNotEqual(qt.succeed(program, *subcommand, *self.arguments(command), cwd=self.shared).out, "")

    def test_a_full_disk_is_told(self):
        for program in programs():
            for command in commands_of(program):
                if command in SILENT:
                    continue
                with self.subTest(command):
                    self.assert_told(self.start_with_full_disk(command, self.arguments(command)), "No space left on device")

    def test_a_full_disk_is_told_of_help(self):
        for program in programs():
            limits = [["--help-limits"]] if program == "quarry-server" else []
            for arguments in (["--help"], ["--version"], ["--help-json"], *limits):
                with self.subTest(program, arguments=arguments):
                    self.assert_told(self.start_with_full_disk(program, arguments), "No space left on device")
            for command in commands_of(program):
                with self.subTest(command):
                    self.assert_told(self.start_with_full_disk(command, ["--help"]), "No space left on device")

    def test_a_closed_descriptor_is_told_and_no_other_file_takes_its_place(self):
        for program in programs():
            for command in commands_of(program):
                if command in SILENT:
                    continue
                with self.subTest(command):
                    arguments = self.arguments(command)
                    outcome = self.start(command, arguments, preexec_fn=lambda: os.close(1))
                    self.assert_told(outcome, "Bad file descriptor")
                    if "write" in command:
                        self.assert_verified(self.shared / arguments[-1])

    def test_a_pipe_without_reader_ends_programs_silently(self):
        for program in programs():
            for command in commands_of(program):
                if command in SILENT:
                    continue
                with self.subTest(command):
                    outcome = self.start_without_reader(command, self.arguments(command))
                    self.assertIn(outcome.code, (-signal.SIGPIPE, READER_HAS_GONE), outcome)
                    self.assert_silent(outcome)
                with self.subTest(command, signal="ignored"):
                    # As for a child of Python, or a service of systemd.
                    outcome = self.start_without_reader(command, self.arguments(command), restore_signals=False)
                    self.assertEqual(outcome.code, READER_HAS_GONE, outcome)
                    self.assert_silent(outcome)

    def test_a_conversion_is_complete_without_its_output(self):
        for program in ("quarry-write", "quarry-write-single"):
            if (qt.BIN / program).exists():
                arguments = self.arguments(program)
                self.assert_told(self.start_with_full_disk(program, arguments), "No space left on device")
                self.assert_verified(self.shared / arguments[-1])

    def test_an_error_of_the_run_is_told_instead(self):
        outcome = self.start_with_full_disk("quarry info", ["absent.quarry"])
        self.assert_one_line(outcome, qt.NOT_FOUND, "absent.quarry")

    def test_errors_that_nobody_hears_change_no_exit_code(self):
        with open("/dev/full", "wb") as full:
            for options in ({"stderr": full}, {"preexec_fn": lambda: os.close(2)}):
                done = subprocess.run([qt.executable("quarry"), "info", "absent.quarry"], cwd=self.shared, check=False,
                                      stdout=subprocess.PIPE, timeout=qt.TIMEOUT, **options)
                self.assertEqual(done.returncode, qt.NOT_FOUND, options)

    def test_no_rank_waits_for_one_that_cannot_print(self):
        for command in ("quarry-write", "quarry-iobench", "quarry-reproduce exchange", "quarry-spectrum"):
            program, *subcommand = command.split()
            if not (qt.BIN / program).exists():
                continue
            with self.subTest(command):
                # mpirun reads what its ranks print: the disk is full for the ranks themselves.
                ranks = qt.mpi_command(3, "sh", "-c", 'exec "$0" "$@" > /dev/full', qt.executable(program), *subcommand)
                outcome = qt.run(*ranks, *self.arguments(command), cwd=self.shared)
                self.assertEqual(outcome.code, qt.IO_ERROR, outcome)
                self.assertEqual(len(outcome.lines_of(program)), 1, outcome)


if __name__ == "__main__":
    qt.main()
