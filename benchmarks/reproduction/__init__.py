"""Rows of docs/reproduction.md: what the papers print, beside what the models give and what is measured here.

Each module has `rows(programs)`, where `programs` is the folder of the built programs, and returns dictionaries with

    paper           "000" to "004", see benchmarks/reproduce.py
    where           "figure 7"
    what            "file per process"
    unit            "GiB/s"; "" for counts and ratios
    paper_value     number, or text where the paper says it in words
    model_value     number or text; None where there is no model
    measured_value  the same, from this machine; None where nothing is measured
    verdict         in a few words
    command         that gives the value
    note            "" or a sentence

A module that measures nothing gives the same rows on every machine; its name is in MODELS of benchmarks/reproduce.py.
"""
