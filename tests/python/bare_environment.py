"""Environment of a program with only the packages that a page names: `pip install quarry-data[xarray] netCDF4`.

Every other distribution of this environment is hidden from it, and from the processes that it starts.
"""

import functools
import importlib.metadata
import os
import tomllib

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from python_testing import ROOT, as_installed

_SITE = '''"""Hides distributions that a page does not name."""
import sys

class _Finder:
    def __init__(self, finder):
        self._finder = finder

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in HIDDEN else self._finder.find_spec(name, path, target)

HIDDEN = {hidden!r}
sys.meta_path[:] = map(_Finder, sys.meta_path)
'''


# Ours, with their folders.
PACKAGES = {"quarry-data": "clients/python", "quarry-outofcore": "clients/outofcore"}


@functools.cache
def of_the_package(name):
    """Its requirements, and those of each extra."""
    with open(ROOT / PACKAGES[name] / "pyproject.toml", "rb") as file:
        told = tomllib.load(file)
    project = told["project"]
    if "dependencies" in project.get("dynamic", ()):
        made = told["tool"]["scikit-build"]["metadata"]["dependencies"]["result"]
        return [text.removesuffix("=={project[version]}") for text in made], project["optional-dependencies"]
    return project["dependencies"], project["optional-dependencies"]


def installed_by(requirements):
    """Names of all distributions that pip would install for these."""
    left, seen = [Requirement(text) for text in requirements], set()
    while left:
        requirement = left.pop()
        name = canonicalize_name(requirement.name)
        for extra in requirement.extras or {""}:
            if (name, extra) not in seen:
                seen.add((name, extra))
                left += map(Requirement, _package(name, extra) if name in PACKAGES else _distribution(name, extra))
    return {name for name, _ in seen}


@functools.cache
def _owners():
    """Names of the distributions that have a package, by what is imported."""
    return importlib.metadata.packages_distributions()


def _package(name, extra):
    always, extras = of_the_package(name)
    return always + (extras[extra] if extra else [])


def _distribution(name, extra):
    said = importlib.metadata.distribution(name).requires or []
    return [text for text in said
            if (marker := Requirement(text).marker) is None or marker.evaluate({"extra": extra})]


def bare_environment(folder, requirements):
    """Entries for PYTHONPATH."""
    kept = installed_by(requirements)
    hidden = {top for top, owners in _owners().items() if not kept.intersection(map(canonicalize_name, owners))}
    site = folder / "bare"
    site.mkdir(parents=True)
    (site / "sitecustomize.py").write_text(_SITE.replace("{hidden!r}", repr(hidden)))
    return os.pathsep.join([str(site), as_installed(folder / "site")])
