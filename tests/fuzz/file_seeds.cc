// Seeds of foreign files, assembled by hand from the specifications of their formats.

#include <fmt/format.h>

#include "quarry/base/checksum.h"
#include "quarry/index/records.h"
#include "tests/fuzz/seeds.h"

namespace quarry::fuzz {
namespace {

// ---- VTK ImageData

std::string Vti(const std::string& attributes, const std::string& array, const std::string& behind = "",
                const std::string& extent = "0 1 0 1 0 1") {
  return "<?xml version=\"1.0\"?>\n<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"LittleEndian\"" +
         attributes + ">\n<ImageData WholeExtent=\"" + extent +
         "\" Origin=\"0 0 0\" Spacing=\"1 1 1\">\n<Piece Extent=\"" + extent +
         "\">\n"
         "<PointData>\n<DataArray type=\"Int16\" Name=\"p\" " +
         array + "</DataArray>\n</PointData>\n</Piece>\n</ImageData>\n" + behind + "</VTKFile>\n";
}

/// Eight samples of int16 after their size.
std::string RawSamples() {
  std::string bytes("\x10\0\0\0", 4);
  for (char i = 0; i < 8; ++i) bytes += {i, 0};
  return bytes;
}

void AddVti(Corpus* corpus) {
  corpus->Add("ascii", Vti("", "format=\"ascii\">0 1 2 3 4 5 6 -7"));
  // The size alone, and the samples alone, as VTK encodes them; and both together.
  const std::string base64 = "EAAAAA==AAABAAIAAwAEAAUABgAHAA==";
  corpus->Add("inline", Vti(" header_type=\"UInt32\"", "format=\"binary\">" + base64));
  corpus->Add("inline_together", Vti("", "format=\"binary\">EAAAAAAAAQACAAMABAAFAAYABwA="));
  corpus->Add("appended_raw", Vti("", "format=\"appended\" offset=\"0\">",
                                  "<AppendedData encoding=\"raw\">_" + RawSamples() + "</AppendedData>\n"));
  corpus->Add("appended_base64", Vti("", "format=\"appended\" offset=\"0\">",
                                     "<AppendedData encoding=\"base64\">_" + base64 + "</AppendedData>\n"));
  // zlib without compression: 78 01, a stored block, its length and complement, the samples, Adler-32.
  std::string packed("\x78\x01\x01\x10\0\xef\xff", 7);
  packed += RawSamples().substr(4);
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  for (const char c : RawSamples().substr(4)) b += a += static_cast<unsigned char>(c);
  for (const std::uint32_t byte : {b >> 8, b, a >> 8, a}) packed += static_cast<char>(byte & 0xff);
  std::string blocks("\1\0\0\0\x10\0\0\0\0\0\0\0", 12);
  blocks += std::string{static_cast<char>(packed.size()), 0, 0, 0};
  corpus->Add("zlib", Vti(" compressor=\"vtkZLibDataCompressor\"", "format=\"appended\" offset=\"0\">",
                          "<AppendedData encoding=\"raw\">_" + blocks + packed + "</AppendedData>\n"));
  // One block that claims to hold a terabyte.
  std::string large("\1\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0", 24);
  large += std::string{static_cast<char>(packed.size()), 0, 0, 0, 0, 0, 0, 0};
  corpus->Add("zlib_terabyte", Vti(" header_type=\"UInt64\" compressor=\"vtkZLibDataCompressor\"",
                                   "format=\"appended\" offset=\"0\">",
                                   "<AppendedData encoding=\"raw\">_" + large + packed + "</AppendedData>\n",
                                   "0 1048575 0 1023 0 511"));
}

// ---- Classic NetCDF

class ClassicFile {
 public:
  explicit ClassicFile(char version) : version_(version), bytes_("CDF") { bytes_ += version; }

  void Number(std::uint64_t value, std::size_t size = 4) {
    for (std::size_t i = size; i-- > 0;) bytes_ += static_cast<char>(value >> (8 * i) & 0xff);
  }
  void Count(std::uint64_t value) { Number(value, version_ == 5 ? 8 : 4); }
  void Offset(std::uint64_t value) { Number(value, version_ == 1 ? 4 : 8); }
  void Text(const std::string& text) {
    Count(text.size());
    bytes_ += text;
    bytes_.resize((bytes_.size() + 3) / 4 * 4, '\0');
  }
  void Samples(std::size_t count) { bytes_.append(count, '\1'); }
  const std::string& bytes() const { return bytes_; }

 private:
  const char version_;
  std::string bytes_;
};

/// Dimensions time (of records) and x, an attribute, and two variables.
std::string Classic(char version) {
  ClassicFile file(version);
  file.Count(2);  // records
  file.Number(10);
  file.Count(2);
  file.Text("time");
  file.Count(0);
  file.Text("x");
  file.Count(3);
  file.Number(12);
  file.Count(1);
  file.Text("title");
  file.Number(2);
  file.Text("of a file");
  file.Number(11);
  file.Count(2);
  for (const bool of_records : {true, false}) {
    file.Text(of_records ? "p" : "q");
    file.Count(of_records ? 2 : 1);
    if (of_records) file.Count(0);
    file.Count(1);
    file.Number(0);
    file.Count(0);
    file.Number(5);  // float
    file.Count(12);
    file.Offset(of_records ? 400 : 300);
  }
  file.Samples(200);
  return file.bytes();
}

// ---- NumPy

std::string Npy(const std::string& descr, const std::string& shape, std::size_t bytes, bool fortran = false) {
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr,
                                   fortran ? "True" : "False", shape);
  constexpr std::size_t kPrefix = 10;
  header.resize((kPrefix + header.size() + 64) / 64 * 64 - kPrefix - 1, ' ');
  header += '\n';
  std::string file("\x93NUMPY\1\0", 8);
  file += static_cast<char>(header.size() & 0xff);
  file += static_cast<char>(header.size() >> 8);
  return file + header + std::string(bytes, '\1');
}

void AddNpy(Corpus* corpus) {
  corpus->Add("small", Npy("<f4", "(2, 3, 4)", 96));
  corpus->Add("fortran", Npy("<f8", "(2, 3)", 48, true));
  corpus->Add("big_endian", Npy(">i2", "(5,)", 10));
  corpus->Add("too_short", Npy("|u1", "(100, 100, 100)", 3));
}

// ---- TIFF

class TiffFile {
 public:
  explicit TiffFile(bool big_endian) : big_endian_(big_endian), bytes_(big_endian ? "MM" : "II") {
    Number(42, 2);
  }
  void Number(std::uint32_t value, int size) {
    for (int i = 0; i < size; ++i)
      bytes_ += static_cast<char>(value >> (8 * (big_endian_ ? size - 1 - i : i)) & 0xff);
  }
  /// One value, short or long.
  void Tag(std::uint32_t tag, std::uint32_t value, bool is_long = false) {
    Number(tag, 2);
    Number(is_long ? 4 : 3, 2);
    Number(1, 4);
    Number(value, is_long ? 4 : 2);
    if (!is_long) Number(0, 2);
  }
  const std::string& bytes() const { return bytes_; }
  std::string& bytes() { return bytes_; }

 private:
  const bool big_endian_;
  std::string bytes_;
};

/// Two pages of 4 x 3 samples of 16 bits in one strip each.
std::string Tiff(bool big_endian) {
  TiffFile file(big_endian);
  constexpr std::uint32_t kTags = 9;
  constexpr std::uint32_t kPage = 2 + 12 * kTags + 4;
  constexpr std::uint32_t kSamples = 24;
  constexpr std::uint32_t kFirst = 8;
  file.Number(kFirst, 4);
  for (std::uint32_t page = 0; page < 2; ++page) {
    file.Number(kTags, 2);
    file.Tag(256, 4);   // width
    file.Tag(257, 3);   // length
    file.Tag(258, 16);  // bits
    file.Tag(259, 1);   // not compressed
    file.Tag(262, 1);   // black is zero
    file.Tag(273, kFirst + 2 * kPage + page * kSamples, true);
    file.Tag(277, 1);  // samples of a pixel
    file.Tag(278, 3);  // rows of a strip
    file.Tag(279, kSamples, true);
    file.Number(page == 0 ? kFirst + kPage : 0, 4);
  }
  file.bytes().append(2 * kSamples, '\1');
  return file.bytes();
}

// ---- Ours

void AddConfig(Corpus* corpus) {
  corpus->Add("good", "root = \"/data\"\nmemory = \"4GiB\"\ncalls = 50\nquiet = true\n# a comment\n");
  corpus->Add("unknown", "rooot = 'x'\n[section]\ncalls = [1, 2]\n");
  corpus->Add("wrong", "calls = many\nquiet = 7\nmemory = \"\"\"\n");
}

void AddTokens(Corpus* corpus) {
  // SHA-256 of "secret" and "other", by sha256sum.
  const std::string secret = "sha256:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
  const std::string other = "sha256:d9298a10d1b0735837dc4bd85dac641b0f3cef27a47e5d53a54f2f3f5b2fcffa";
  corpus->Add("one", "alice " + secret + " *\n");
  corpus->Add("two", "# people\n\nalice " + secret + " run42 wind/*\nbob\t" + other + "  t? [a-c]* \\x\n");
  corpus->Add("the_same_twice", "alice " + secret + " *\nbob " + secret + " *\n");
  corpus->Add("half_a_line", "alice " + secret + " *\nbob sha256:");
}

void AddSeals(Corpus* corpus) {
  const std::string name = "patches-0123456789abcdef.mdb";
  const std::string checksum = ChecksumText(0x0123456789abcdef);
  const std::string sealed = fmt::format("{} {} {} {}", index::kIndexVersion, name, 4096, checksum);
  for (const char repair : {'\0', '\1'}) {
    corpus->Add(
        repair == 0 ? "as_it_is" : "repaired",
        fmt::format(
            "{}{{\n \"version\": {},\n \"data_file\": \"{}\",\n \"bytes\": 4096,\n \"checksum\": \"{}\",\n "
            "\"seal\": \"{}\"\n}}\n",
            repair, index::kIndexVersion, name, checksum,
            ChecksumText(Checksum(std::as_bytes(std::span(sealed))))));
  }
}

}  // namespace

bool AddFiles(const std::string& folder) {
  Corpus vti(folder, "vti");
  AddVti(&vti);
  Corpus classic(folder, "netcdf_classic");
  for (const char version : {1, 2, 5}) classic.Add(fmt::format("cdf{}", int{version}), Classic(version));
  classic.Add("another_format", std::string("\x89HDF\r\n\x1a\n"));
  Corpus tokens(folder, "tokens");
  AddTokens(&tokens);
  Corpus seal(folder, "seal");
  AddSeals(&seal);
  Corpus npy(folder, "npy");
  AddNpy(&npy);
  Corpus tiff(folder, "tiff");
  for (const bool big_endian : {false, true}) tiff.Add(big_endian ? "big" : "little", Tiff(big_endian));
  Corpus config(folder, "config");
  AddConfig(&config);
  if (!npy.ok() || !tiff.ok() || !config.ok()) return false;
  return vti.ok() && classic.ok() && tokens.ok() && seal.ok();
}

}  // namespace quarry::fuzz
