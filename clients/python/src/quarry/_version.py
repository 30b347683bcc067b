"""The version of the package: that of the C++ library in it."""

__version__ = "0.1.0"
