"""Every wrong request gets one line that says what is wrong, with the offending value, and the documented exit
code."""

import json
import os
import re
import socket

import numpy as np

import quarry_testing as qt

DIMS = (12, 10, 8)


class Attempts(qt.QuarryTest):
    """Attempts of quarry-write that must leave nothing behind."""

    def setUp(self):
        super().setUp()
        self.field = qt.turbulent(DIMS)
        self.source = self.tmp / "in.f32"
        self.field.tofile(self.source)
        self.output = self.tmp / "new.quarry"

    def check(self, code, *mentions, source=None, dims="12x10x8", type_="float32",
              bound=("--tolerance", "0.01"), output=None, more=()):
        raw = ["--dims", dims, "--type", type_] if dims else []
        before = qt.snapshot(self.tmp)
        outcome = qt.run(qt.SERIAL_WRITER, source or self.source, *raw, *bound, *more,
                         "--output", output or self.output)
        self.assert_one_line(outcome, code, *mentions)
        self.assertTrue(qt.snapshot(self.tmp) == before, f"something has changed: {outcome}")


class Converting(Attempts):
    """Bad input for quarry-write."""

    def test_wrong_dims(self):
        self.check(qt.USAGE, "12x10x9", "3840", dims="12x10x9")
        self.check(qt.USAGE, "12x10x8", "in.f32", type_="float64")
        for dims in ("12x10x0", "12x-10x8", "12,10,8", "twelve", "1x2x3x4",
                     "99999999999x99999999999x99999999999"):
            with self.subTest(dims=dims):
                self.check(qt.USAGE, dims, dims=dims)
        self.check(qt.USAGE, "--dims", "in.f32", dims=None)

    def test_unknown_words(self):
        self.check(qt.USAGE, "float33", type_="float33")
        for option in ("--byte-order", "--order", "--placement", "--aggregation", "--exchange", "--codec",
                       "--format"):
            with self.subTest(option=option):
                self.check(qt.USAGE, "sideways", more=(option, "sideways"))
        self.check(qt.USAGE, "--frobnicate", more=("--frobnicate",))

    def test_error_bounds(self):
        for option in ("--tolerance", "--relative"):
            for value in ("0", "-1", "nan", "inf", "-0.0", "small"):
                with self.subTest(option=option, value=value):
                    self.check(qt.USAGE, value.removesuffix(".0"), option, bound=(f"{option}={value}",))
        self.check(qt.USAGE, "--tolerance", bound=())
        self.check(qt.USAGE, "--relative", bound=("--tolerance", "1", "--relative", "1"))

    def test_layout(self):
        self.check(qt.USAGE, "48", more=("--patch", "48"))
        self.check(qt.USAGE, "99", more=("--levels", "99"))
        self.check(qt.USAGE, "0", more=("--levels", "0"))
        self.check(qt.USAGE, "0", more=("--files", "0"))
        self.check(qt.USAGE, "a/b", more=("--field", "a/b"))
        self.check(qt.USAGE, "..", more=("--field", ".."))

    def test_paths(self):
        self.check(qt.NOT_FOUND, "missing.f32", source=self.tmp / "missing.f32")
        empty = self.tmp / "empty"
        empty.mkdir()
        self.check(qt.NOT_FOUND, ".tif", empty, source=empty)  # a folder may be a stack of images
        self.check(qt.NOT_FOUND, "*.f64", source=self.tmp / "*.f64")
        self.check(qt.NOT_FOUND, "nothing.txt", source=f"@{self.tmp / 'nothing.txt'}")
        self.check(qt.NOT_FOUND, "nowhere", output=self.tmp / "nowhere" / "new.quarry")
        self.check(qt.IO_ERROR, "/proc", output="/proc/new.quarry")
        self.check(qt.NOT_FOUND, "new.quarry", more=("--append",))

    def test_empty_input(self):
        (self.tmp / "empty.f32").touch()
        self.check(qt.USAGE, "empty.f32", source=self.tmp / "empty.f32")

    def test_existing_output(self):
        qt.convert(self.field, self.output, "--tolerance", "0.01")
        self.check(qt.USAGE, "new.quarry")
        again = ("--append", "--field", "f")
        self.check(qt.USAGE, "step 0", more=(*again, "--step", "0"))
        self.check(qt.USAGE, "12x8x10", "12x10x8", dims="12x8x10", more=(*again, "--step", "1"))
        self.check(qt.USAGE, "32", more=(*again, "--step", "1", "--patch", "32"))
        self.check(qt.USAGE, "0.01", bound=("--tolerance", "0.02"), more=(*again, "--step", "1"))
        self.check(qt.USAGE, "0.01", bound=("--lossless",), more=(*again, "--step", "1"))
        self.check(qt.USAGE, "lossless", bound=("--codec", "lossless"), more=(*again, "--step", "1"))
        self.check(qt.USAGE, "fill value 7", "no fill value", more=(*again, "--step", "1", "--fill", "7"))
        np.zeros(DIMS[::-1]).tofile(self.tmp / "double.f64")
        self.check(qt.USAGE, "float64", source=self.tmp / "double.f64", type_="float64",
                   more=(*again, "--step", "1"))

    def test_bounds_and_coders_that_contradict(self):
        for bound in (("--tolerance", "1"), ("--relative", "1e-3")):
            with self.subTest(bound=bound):
                self.check(qt.USAGE, "--lossless", bound[0], bound=("--lossless", *bound))
                self.check(qt.USAGE, "lossless", bound[0], bound=("--codec", "lossless", *bound))
        self.check(qt.USAGE, "--lossless", "wavelet-zfp", bound=("--lossless", "--codec", "wavelet-zfp"))
        self.check(qt.USAGE, "validity", bound=("--tolerance", "1", "--codec", "validity"))

    def test_coders_for_integers(self):
        source = self.tmp / "in.i2"
        qt.integers(DIMS, "<i2").tofile(source)
        self.check(qt.USAGE, "in.i2", "int16", "wavelet-zfp", source=source, type_="int16",
                   bound=("--codec", "wavelet-zfp", "--tolerance", "1"))
        self.check(qt.USAGE, "in.i2", "without loss", "wavelet-zfp", source=source, type_="int16",
                   bound=("--codec", "wavelet-zfp"))

    def test_fill_values(self):
        for fill in ("empty", "1e50", "1,5", "0x10", "3 4"):
            with self.subTest(fill=fill):
                self.check(qt.USAGE, "--fill", fill, "float32", more=(f"--fill={fill}",))
        source = self.tmp / "in.u1"
        qt.integers(DIMS, "u1").tofile(source)
        for fill in ("1.5", "256", "-1", "nan", "1e2"):
            with self.subTest(fill=fill):
                self.check(qt.USAGE, "--fill", fill, "uint8", source=source, type_="uint8", bound=(),
                           more=(f"--fill={fill}",))

    def test_numpy_files(self):
        np.save(self.tmp / "structure.npy", np.zeros((4, 5), [("a", "f4"), ("b", "f4")]))
        self.check(qt.USAGE, "structure.npy", "('a', '<f4')", source=self.tmp / "structure.npy", dims=None)
        np.save(self.tmp / "four.npy", np.stack([self.field] * 2))
        self.check(qt.USAGE, "four.npy", "0=2 x 1=", "--axes tzyx", source=self.tmp / "four.npy", dims=None)
        np.save(self.tmp / "good.npy", self.field)
        whole = (self.tmp / "good.npy").read_bytes()
        for length in (0, 5, 11, 60, 127, len(whole) - 1):
            (self.tmp / "short.npy").write_bytes(whole[:length])
            with self.subTest(length=length):
                self.check(qt.USAGE, "short.npy", source=self.tmp / "short.npy", dims=None)
        (self.tmp / "text.npy").write_text("not an array, whatever the name says\n")
        self.check(qt.USAGE, "text.npy", source=self.tmp / "text.npy", dims=None)


class Asking(qt.QuarryTest):
    """Bad queries get the same answer from a directory and from a server."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.dataset = cls.shared / "run.quarry"
        qt.convert(qt.turbulent(DIMS), cls.dataset, "--tolerance", "0.01", "--patch", "8")
        cls.server = cls.enterClassContext(qt.Server(cls.shared))

    def check(self, code, *mentions, options, commands=("get", "plan")):
        for target in (self.dataset, self.server.target(self.dataset)):
            for command in commands:
                output = ["--output", self.tmp / "out.raw"] if command == "get" else []
                with self.subTest(target=target, command=command, options=options):
                    outcome = qt.run("quarry", command, target, *output, *options)
                    self.assert_one_line(outcome, code, *mentions)
                    self.assertFalse((self.tmp / "out.raw").exists())

    def test_boxes(self):
        for box, offending in (("0:13,0:10,0:8", "0:13"), ("0:12,0:11,0:8", "0:11"), ("0:12,0:10,0:9", "0:9"),
                               ("-1:5,:,:", "-1:5"), ("5:5,:,:", "5:5"), ("7:3,:,:", "7:3"),
                               ("12:13,:,:", "12:13"), ("0:4294967297,:,:", "4294967297")):
            self.check(qt.USAGE, offending, "12x10x8", options=["--box", box])
        for box in ("0-4,0-4,0-4", "a:b,c:d,e:f", "0:4,0:4,0:4,0:4", "0:4:2,:,:", "0:4,0:4,0:4 ",
                    "0:4,0:4,0:99999999999999999999"):
            self.check(qt.USAGE, box, options=["--box", box])

    def test_levels(self):
        for level in ("4", "99", "-1", "one", "1.5", "99999999999999999999"):
            self.check(qt.USAGE, level, options=["--level", level])

    def test_names(self):
        self.check(qt.NOT_FOUND, "pressure", options=["--field", "pressure"])
        self.check(qt.NOT_FOUND, "5", options=["--field", "f", "--step", "5"])
        self.check(qt.USAGE, "-5", options=["--step", "-5"])
        self.check(qt.USAGE, "--frobnicate", options=["--frobnicate"])

    def test_outputs(self):
        for target in (self.dataset, self.server.target(self.dataset)):
            for code, output in ((qt.USAGE, "box.vtk"), (qt.USAGE, "box"), (qt.NOT_FOUND, "nowhere/box.raw")):
                with self.subTest(target=target, output=output):
                    outcome = qt.run("quarry", "get", target, "--output", self.tmp / output)
                    self.assert_one_line(outcome, code, output)
            with self.subTest(target=target, output="/proc"):
                outcome = qt.run("quarry", "get", target, "--output", "/proc/box.raw")
                self.assert_one_line(outcome, qt.IO_ERROR, "/proc/box.raw")
            with self.subTest(target=target, output="a picture of a block"):
                outcome = qt.run("quarry", "get", target, "--output", self.tmp / "box.png")
                self.assert_one_line(outcome, qt.USAGE, "12x10x8")

    def test_targets(self):
        (self.tmp / "file").touch()
        (self.tmp / "empty").mkdir()
        for target in (self.tmp / "missing.quarry", self.tmp / "file", self.tmp / "empty"):
            for command in (["info"], ["get", "--output", self.tmp / "out.raw"], ["plan"], ["verify"]):
                with self.subTest(target=target.name, command=command[0]):
                    outcome = qt.run("quarry", command[0], target, *command[1:])
                    self.assert_one_line(outcome, qt.NOT_FOUND, target.name)
        self.assert_one_line(qt.run("quarry-index", self.tmp / "missing"), qt.NOT_FOUND, "missing")
        self.assert_one_line(qt.run("quarry-index", self.tmp / "empty"), qt.NOT_FOUND, "empty")
        self.assert_one_line(qt.run("quarry", "ls", self.tmp / "missing"), qt.NOT_FOUND, "missing")

    def test_names_on_a_server(self):
        """A name is one that the server has listed, never a path."""
        for name in ("missing", "../run", "..", "run.quarry/../run", "/etc", "run/steps"):
            with self.subTest(name=name):
                outcome = qt.run("quarry", "info", f"grpc://{self.server.address}/{name}")
                self.assert_one_line(outcome, qt.NOT_FOUND, name)

    def test_addresses(self):
        for target in ("grpc://", "grpc://localhost/run", "grpc://:50051/run"):
            with self.subTest(target=target):
                self.assert_one_line(qt.run("quarry", "info", target), qt.USAGE, target)
        target = f"grpc://{self.server.address}"
        self.assert_one_line(qt.run("quarry", "info", target), qt.USAGE, target)

    def test_server_that_is_not_there(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))  # and never listens
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            for command in (["info"], ["get", "--output", self.tmp / "out.raw"], ["plan"]):
                with self.subTest(command=command[0]):
                    outcome = qt.run("quarry", command[0], f"grpc://{address}/run", *command[1:])
                    self.assert_one_line(outcome, qt.UNREACHABLE, address)
            self.assert_one_line(qt.run("quarry", "ls", f"grpc://{address}"), qt.UNREACHABLE, address)

    def test_usage_of_the_other_programs(self):
        for command in (["quarry"], ["quarry", "frobnicate"], ["quarry", "get", self.dataset],
                        ["quarry-index"], ["quarry-server"],
                        ["quarry-server", self.shared, "--memory", "much"],
                        ["quarry-server", self.shared, "--listen", "nowhere"]):
            with self.subTest(command=command):
                outcome = qt.run(*command)
                self.assertIn(outcome.code, (qt.USAGE, qt.UNREACHABLE), outcome)
                self.assertEqual(len(outcome.lines_of(command[0])), 1, outcome)
        with self.assertRaises(qt.Server.Refused) as refused, qt.Server(self.tmp / "missing"):
            pass
        self.assert_one_line(refused.exception.args[0], qt.NOT_FOUND, "missing")

    def test_source_that_differs(self):
        """verify --against says that the promise does not hold, which is not a usage error."""
        other = self.tmp / "other.f32"
        (qt.turbulent(DIMS) + np.float32(1)).tofile(other)
        for target in (self.dataset, self.server.target(self.dataset)):
            outcome = qt.run("quarry", "verify", target, "--against", other, *qt.describe(qt.turbulent(DIMS)))
            self.assertEqual(outcome.code, qt.CHECK_FAILED, outcome)


class Numbers(qt.QuarryTest):
    """No number is taken for another one that fits, and none is NaN or infinite."""

    # Values outside of the type of an option. The largest ones are 2^64 - 1, 2^63 - 1 and 1.8e308.
    IMPOSSIBLE = {"UINT": ("18446744073709551616", "-1", "-18446744073709551615", "0x10", "1.5"),
                  "INT": ("9223372036854775808", "-9223372036854775809", "18446744073709551616", "0x10", "1.5"),
                  "FLOAT": ("nan", "inf", "-inf", "1e999", "-1e999", "1e-999")}

    def options(self):
        """Program, subcommand and option, with its type, of every option that is a number."""
        for path in sorted(qt.BIN.iterdir()):
            if not path.name.startswith("quarry") or not os.access(path, os.X_OK):
                continue
            described = json.loads(qt.succeed(path.name, "--help-json").out)
            for command in [described, *described["commands"]]:
                before = [path.name] if command is described else [path.name, command["name"]]
                for option in command["options"]:
                    if option["value"] in self.IMPOSSIBLE:
                        yield before, option["names"][-1], option["value"]

    def test_every_option_refuses_what_it_cannot_hold(self):
        seen = set()
        for command, name, kind in self.options():
            # Starting MPI takes long: quarry-write-single has the same options.
            if "quarry-write" in command and qt.SERIAL_WRITER != "quarry-write":
                continue
            values = self.IMPOSSIBLE[kind] if qt.FULL or kind not in seen else self.IMPOSSIBLE[kind][:2]
            seen.add(kind)
            for value in values:
                with self.subTest(" ".join(command), option=name, value=value):
                    outcome = qt.run(*command, f"{name}={value}")
                    self.assertEqual(outcome.code, qt.USAGE, outcome)
                    self.assertIn(f"{name}: ", outcome.err)
                    self.assertIn(value, outcome.err)
        self.assertEqual(seen, set(self.IMPOSSIBLE))

    def test_sizes_that_are_too_large(self):
        field = qt.turbulent(DIMS)
        qt.convert(field, self.tmp / "run.quarry", "--tolerance", "0.01")
        for size in ("99999999999999999999GiB", "1e999", "inf", "nan", "-1MiB", "9000000000000000000000"):
            for command in ((qt.SERIAL_WRITER, "in.f32", "--output", "new.quarry", "--tolerance", 1, "--memory", size),
                            ("quarry-server", self.tmp, "--memory", size),
                            ("quarry-server", self.tmp, "--client-bytes", size),
                            ("quarry-server", self.tmp, "--max-request-bytes", size),
                            ("quarry", "plan", self.tmp / "run.quarry", "--max-bytes", size)):
                with self.subTest(command=command[0], option=command[-2], size=size):
                    self.assert_one_line(qt.run(*command, cwd=self.tmp), qt.USAGE, size)

    def test_numbers_in_texts(self):
        qt.convert(qt.turbulent(DIMS), self.tmp / "run.quarry", "--tolerance", "0.01")
        dataset = self.tmp / "run.quarry"
        for command in (("quarry", "plan", dataset, "--steps", "0:18446744073709551616"),
                        ("quarry", "plan", dataset, "--box", "0:9223372036854775808,0:1,0:1"),
                        ("quarry", "plan", dataset, "--stride", "1e999"),
                        ("quarry", "plan", dataset, "--focus", "1,2,1e999"),
                        ("quarry", "plan", dataset, "--values", "0:1e999"),
                        ("quarry", "plan", dataset, "--values", "nan:1"),
                        ("quarry", "stats", dataset, "--percentiles", "5,nan"),
                        ("quarry", "stats", dataset, "--range", "0:1e999"),
                        ("quarry", "points", dataset, "--field", "f", "--at", "1,2,1e999"),
                        ("quarry-reproduce", "stack", "--dims", "8x8x8", "--ranks", "2x2x2", "--set", "decode_s_per_mib=1e999"),
                        ("quarry-reproduce", "fft", "--dims", "64", "--set", "flops_per_s=1e999")):
            with self.subTest(command=command[1], option=command[-2]):
                self.assert_one_line(qt.run(*command), qt.USAGE, command[-1].rpartition("=")[2])
        qt.succeed("quarry", "plan", dataset, "--values", "-inf:0")
        # Decimal, as the folders of the steps are named.
        qt.convert(qt.turbulent(DIMS), self.tmp / "steps.quarry", "--tolerance", "0.01", "--step", "000010")
        self.assertEqual(qt.info(self.tmp / "steps.quarry")["steps"], [10])


class Places(Attempts):
    """Positions of samples that quarry-write reports are finite, with their source."""

    def test_spacing_and_origin(self):
        for spacing in ("0,0,0", "1,0,1", "1,1,-0.0", "1e308,1,1"):
            with self.subTest(spacing=spacing):
                self.check(qt.USAGE, "spacing", more=(f"--spacing={spacing}",))
        for option in ("--spacing", "--origin"):
            for value in ("nan,1,1", "1,inf,1", "1,1,1e999"):
                with self.subTest(option=option, value=value):
                    self.check(qt.USAGE, option, more=(f"{option}={value}",))
        # Positions may descend.
        qt.succeed(qt.SERIAL_WRITER, self.source, *qt.describe(self.field), "--tolerance", "1", "--spacing=-1,-0.5,2",
                   "--output", self.output)
        self.assertEqual(qt.info(self.output)["spacing"], [-1, -0.5, 2])

    def test_times_and_steps(self):
        for time in ("nan", "inf", "-inf", "1e999"):
            with self.subTest(time=time):
                self.check(qt.USAGE, "--time", time, more=(f"--time={time}",))
        for step in ("18446744073709551616", "-1", "1.5", "0x10"):
            with self.subTest(step=step):
                self.check(qt.USAGE, "--step", step, more=(f"--step={step}",))

    def test_steps_do_not_go_round(self):
        """The number behind 2^64 - 1 would be 0."""
        np.save(self.tmp / "in.npy", self.field)
        self.check(qt.USAGE, "--step", "18446744073709551615", source=self.tmp / "in.npy", dims=None,
                   more=(self.tmp / "in.npy", "--field", "f", "--step", 2**64 - 1))
        qt.succeed(qt.SERIAL_WRITER, self.tmp / "in.npy", "--tolerance", 1, "--step", 2**64 - 1, "--output", self.output)
        self.assertEqual(qt.info(self.output)["steps"], [2**64 - 1])

    def test_appended(self):
        """Published steps stay as they are."""
        command = (qt.SERIAL_WRITER, self.source, *qt.describe(self.field), "--tolerance", "1", "--output", self.output)
        qt.succeed(*command)
        before = qt.snapshot(self.output)
        for option in ("--time=nan", "--time=1e999", "--spacing=0,0,0", "--step=18446744073709551617"):
            with self.subTest(option=option):
                step = () if option.startswith("--step") else ("--step", 1)
                self.assert_one_line(qt.run(*command, "--append", *step, option), qt.USAGE, option.split("=")[0].strip("-"))
                self.assertTrue(qt.snapshot(self.output) == before)


class TextsFromOthers(qt.QuarryTest):
    """Names and units may come from anybody: they never reach a terminal as they are."""

    def test_control_characters_are_shown(self):
        dataset = self.tmp / "a.quarry"
        qt.convert(qt.smooth((8, 8, 8)), dataset, "--tolerance", "1", "--units", "\x1b[31mPa\x07")
        for command in (["info", dataset], ["stats", dataset], ["get", dataset, "--output", self.tmp / "a.raw"],
                        ["info", dataset, "--json"]):
            outcome = qt.succeed("quarry", *command)
            self.assertIsNone(re.search("[\x00-\x09\x0b-\x1f\x7f]", outcome.out + outcome.err), outcome)
        self.assertIn("\\x1b[31mPa\\x07", qt.succeed("quarry", "info", dataset).out)

    def test_errors_are_one_line(self):
        qt.convert(qt.smooth((8, 8, 8)), self.tmp / "a.quarry", "--tolerance", "1")
        outcome = qt.run("quarry", "stats", self.tmp / "a.quarry", "--field", "no\nquarry: \x1b[2J")
        self.assert_one_line(outcome, qt.NOT_FOUND, "no\\x0aquarry: \\x1b[2J")


if __name__ == "__main__":
    qt.main()
